"""The one error that is the user's to mend."""


class InputError(ValueError):
    """Bad input or usage: one line that says where, what is wrong and what to do.

    The command line prints it as it is and exits with code 2.
    """

    def __init__(self, message: str, where: str | None = None) -> None:
        # A message is one line whatever the input held (an exception's text may not be).
        line = " ".join(message.split())
        super().__init__(f"{where}: {line}" if where else line)
