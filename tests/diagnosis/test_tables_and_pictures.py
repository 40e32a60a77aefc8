"""Parameters, gradients and scales add up, and the pictures show them."""

import re

import pytest
import torch

from translate.config import Config
from translate.diagnosis.activations import both_norms, scale_table, scales
from translate.diagnosis.gradients import (
    check_gradients,
    forward_and_backward,
    gradient_norms,
    gradient_table,
)
from translate.diagnosis.pictures import (
    draw_gradients,
    draw_positions,
    draw_scales,
    draw_schedule,
)
from translate.diagnosis.probe import made_up_batch, trace
from translate.diagnosis.report import Check, parameter_table, verdict
from translate.model.transformer import Transformer

SIZES = {"d_model": 16, "heads": 2, "encoder_layers": 2, "decoder_layers": 1, "d_ff": 32}


def a_config() -> Config:
    return Config.model_validate({"name": "x", "data": {"corpus": "sample"}, "model": SIZES})


def test_parameters_and_gradients_add_up() -> None:
    model = Transformer(10, 10, **SIZES, tie_source=True).eval()
    numbers = re.findall(r"([\d,]+)$", parameter_table(model), re.MULTILINE)
    *parts, total = (int(number.replace(",", "")) for number in numbers)
    assert sum(parts) == total == sum(p.numel() for p in model.parameters())
    forward_and_backward(a_config(), model, made_up_batch(model))
    norms = gradient_norms(model)
    whole = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    assert list(norms)[-1] == "all" and norms["all"]["all"] == pytest.approx(whole, rel=1e-5)
    parts = [found["all"] for row, found in norms.items() if row != "all"]
    assert sum(norm**2 for norm in parts) == pytest.approx(whole**2, rel=1e-5)
    assert gradient_table([norms]).splitlines()[-1].split()[-1] == f"{whole:.2g}"
    assert gradient_table([norms, norms]).endswith(f"{whole:.2g} → {whole:.2g}")


def test_a_loss_that_rises_is_a_warning_and_one_that_is_not_finite_a_failure() -> None:
    model = Transformer(10, 10, **SIZES).eval()
    forward_and_backward(a_config(), model, made_up_batch(model))
    norms = gradient_norms(model)
    for losses, expected in (([3.0, 2.0], ""), ([3.0], ""), ([3.0, 3.1], "warning"),
                             ([3.0, float("nan")], "FAILED")):
        text = verdict(check_gradients(model, losses, [norms]))
        assert set(re.findall("warning|FAILED", text)) >= {expected} - {""}, losses
        assert expected or ("FAILED" not in text and "warning" not in text)


def test_scales_are_those_of_the_states_without_padding() -> None:
    model = Transformer(10, 10, **SIZES, norm="pre").eval()
    batch = made_up_batch(model)
    found = scales(model, batch)
    assert list(found) == ["encoder input", "encoder 0", "encoder 1", "decoder input", "decoder 0"]
    states = trace(model, batch)["encoder 1"].flatten(0, 1)[(batch.src != 1).flatten()]
    assert found["encoder 1"] == pytest.approx(states.square().mean().sqrt().item(), rel=1e-5)
    assert f"{found['decoder 0']:.2f}" in scale_table({"here": found}).splitlines()[-1]


def test_post_norm_stays_level_and_pre_norm_rises_with_depth() -> None:
    sizes = {**SIZES, "d_model": 64, "encoder_layers": 6, "decoder_layers": 6}
    config = a_config().model_copy(update={"model": a_config().model.model_copy(update=sizes)})
    model = Transformer(10, 10, **sizes).eval()
    pre, post = both_norms(config, model, made_up_batch(model)).values()
    for stack in ("encoder", "decoder"):
        assert [post[f"{stack} {n}"] for n in range(6)] == pytest.approx([1.0] * 6, abs=1e-3)
        rising = [pre[f"{stack} {n}"] for n in range(6)]
        assert rising == sorted(rising) and rising[-1] > 1.5 * rising[0]


def test_both_norms_start_from_the_same_embeddings() -> None:
    model = Transformer(10, 10, **SIZES).eval()
    pre, post = both_norms(a_config(), model, made_up_batch(model)).values()
    assert pre["encoder input"] == post["encoder input"]


def test_pictures_show_every_layer_of_every_model() -> None:
    model = Transformer(10, 10, **SIZES).eval()
    batch = made_up_batch(model)
    forward_and_backward(a_config(), model, batch)
    norms = gradient_norms(model)
    encoder, decoder = draw_gradients({"before": norms, "after": norms}).axes
    assert [line.get_label() for line in encoder.lines] == ["before", "after"]
    assert encoder.lines[0].get_ydata().tolist() == [norms[f"encoder {n}"]["all"] for n in (0, 1)]
    assert decoder.lines[1].get_ydata().tolist() == [norms["decoder 0"]["all"]]
    found = {"here": scales(model, batch), **both_norms(a_config(), model, batch)}
    encoder, decoder = draw_scales(found).axes
    assert [len(axes.lines) for axes in (encoder, decoder)] == [3, 3]
    highest = max(value for scale in found.values() for value in scale.values())
    assert encoder.get_ylim()[0] == 0 and highest < encoder.get_ylim()[1] == decoder.get_ylim()[1]
    assert encoder.lines[0].get_ydata().tolist() == list(found["here"].values())[:3]
    assert decoder.lines[0].get_ydata().tolist() == list(found["here"].values())[3:]


def test_a_verdict_names_results_and_the_first_problems() -> None:
    assert verdict([Check("it works", []), Check("it is fast", ["slow"], warning=True),
                    Check("it is right", [str(n) for n in range(9)])]).splitlines() == [
        "ok       it works", "warning  it is fast", "         - slow", "FAILED   it is right",
        *(f"         - {n}" for n in range(6)), "         - and 3 more"]


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative"])
def test_all_kinds_of_positions_are_drawn(positions: str) -> None:
    figure = draw_positions(Transformer(10, 10, **SIZES, positions=positions), 20)
    images = [axes for axes in figure.axes if axes.images]
    assert len(images) == (2 if positions == "relative" else 1)
    assert positions in images[0].get_title().lower()


def test_the_schedule_is_drawn_past_its_peak_and_to_the_end_of_training() -> None:
    for updates, shown in ((100, 12_000), (50_000, 50_000)):
        curve = draw_schedule(a_config(), updates).axes[0].lines[0]
        assert curve.get_xdata()[-1] == shown
        assert curve.get_xdata()[curve.get_ydata().argmax()] == 4000
