"""Where the processor time of an update goes."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from translate.model.dropout import Dropout

# What the names of operators, or of what calls them, begin with.
GROUPS = {
    "matrix products": ("_Product", "mkldnn::_linear_pointwise", "aten::mm", "aten::addmm",
                        "aten::bmm"),
    "attention": ("aten::scaled_dot_product_attention", "ScaledDotProduct"),
    "dropout": ("dropout",),
    "softmax and loss": ("FusedLoss", "aten::log_softmax", "LogSoftmax", "aten::gather", "Gather"),
    "optimiser and clipping": ("Optimizer", "aten::linalg_vector_norm", "aten::_foreach"),
}


def shares(model: nn.Module, work: Callable[[], object]) -> dict[str, float]:
    """The share of each group in the time of `work`, forward and backward together."""
    with _marked(model), profile(activities=[ProfilerActivity.CPU]) as profiler:
        work()
    events = list(profiler.events() or ())
    # A backward operator bears the number of the forward one whose gradient it computes.
    forward = {event.sequence_nr: group for event in events
               if event.sequence_nr >= 0 and not event.name.startswith("autograd::")
               and (group := _group(event, {}))}
    seconds: Counter[str] = Counter()
    for event in events:
        seconds[_group(event, forward) or "other"] += event.self_cpu_time_total
    total = sum(seconds.values())
    return {group: seconds[group] / total for group in (*GROUPS, "other")}


def _group(event: FunctionEvent | None, forward: dict[int, str]) -> str | None:
    while event is not None:
        for group, beginnings in GROUPS.items():
            if event.name.startswith(beginnings):
                return group
        if event.name.startswith("autograd::") and event.sequence_nr in forward:
            return forward[event.sequence_nr]
        event = event.cpu_parent
    return None


@contextlib.contextmanager
def _marked(model: nn.Module) -> Iterator[None]:
    """While open, what dropout does appears under its name: it is made of common operators."""
    marks: list[Any] = []

    def enter(*_: Any) -> None:
        marks.append(record_function("dropout").__enter__())

    def leave(*_: Any) -> None:
        marks.pop().__exit__(None, None, None)

    handles = [register(hook) for module in model.modules() if isinstance(module, Dropout)
               for register, hook in ((module.register_forward_pre_hook, enter),
                                      (module.register_forward_hook, leave))]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
