"""Text that streams onto a terminal, with its lines broken between words."""

from __future__ import annotations

from gateway.cli.tables import width

TAB = 8


class WordWrap:
    """Where the cursor stands, and how much of a word has been written there.

    A word is shown while it comes. When it does not fit, the part that is there is moved to a new
    line.
    """

    def __init__(self) -> None:
        self._column = 0
        self._word = ""

    def feed(self, text: str, columns: int) -> str:
        """Return what to write so that a text goes on on a terminal of so many columns."""
        # In the last column terminals differ on where the cursor stands.
        return "".join(self._place(sign, columns - 1) for sign in text)

    def _place(self, sign: str, most: int) -> str:
        if sign == "\n":
            self._column, self._word = 0, ""
            return sign
        if sign in " \t":
            return self._place_space(sign, most)
        takes = width(sign)
        if takes == 2:
            # Between two Chinese signs a line may end.
            self._word = ""
        if self._column + takes > most:
            return self._break(sign, takes)
        self._column += takes
        self._word += sign
        return sign

    def _place_space(self, sign: str, most: int) -> str:
        self._word = ""
        self._column += 1 if sign == " " else TAB - self._column % TAB
        if self._column > most:
            self._column = 0
            return "\n"
        return sign

    def _break(self, sign: str, takes: int) -> str:
        """Begin a new line with what there is of a word, unless it fills the line alone."""
        moved = width(self._word)
        if not moved or moved == self._column:
            self._column, self._word = takes, sign
            return f"\n{sign}"
        self._column = moved + takes
        self._word += sign
        return f"\x1b[{moved}D\x1b[K\n{self._word}"
