"""The one exception for what a user can mend: bad input, a missing file, a wrong setting."""


class UserError(Exception):
    """What is wrong, where, and what to do, in one or two lines.

    The commands print it on stderr and exit with code 2, without a traceback.
    """
