"""What can be wrong with parallel text, reason by reason, and the flags that cleaning acts on."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
"""error: training would fail or be wrong; warning: translations will suffer; note: good to know."""


class Flag(enum.IntFlag):
    """What is wrong with one training pair, a bit for each reason that cleaning can act on; fits a uint16."""

    EMPTY = 1
    """A side has no text."""
    OVERLAP = 2
    """The pair is also in the validation or the test text."""
    DUPLICATE = 4
    """An equal pair came before."""
    NEAR_DUPLICATE = 8
    """A pair came before that differs in case, digits, spaces and punctuation alone."""
    COPY = 16
    """The target is the source."""
    RATIO = 32
    """One side is far longer than the other."""
    CHARACTERS = 64
    """Control characters, exotic line breaks, signs of a wrong encoding."""
    LANGUAGE = 128
    """A side is in the wrong script or language, or the two sides have changed places."""


NO_FLAG = Flag(0)
"""Nothing that cleaning can act on."""


@dataclass(frozen=True)
class Reason:
    """One kind of fault."""

    name: str
    """Stable: programs may rely on it."""
    severity: Severity
    advice: str
    """One sentence."""
    flag: Flag = NO_FLAG
    """What it means for cleaning."""
    grave: float = 2.0
    """A note becomes a warning, and a warning an error, from this share of the lines, pairs or rows on."""
    unit: Literal["lines", "pairs", "rows", "texts"] = "lines"
    """What is counted; the share is one of the text's pairs."""


# The files themselves.
COUNTS_DIFFER = Reason(
    "line counts differ",
    "error",
    "Training stops here: every line of one file must translate the same line of the other; align them.",
)
NO_PAIRS = Reason("no pairs", "error", "There is no text in these files: look where it went.", unit="texts")
WRONG_FORM = Reason(
    "unknown form",
    "error",
    "Training stops here: nothing else was looked at.",
    unit="texts",
)
UTF16 = Reason(
    "not UTF-8 but UTF-16",
    "error",
    "Training stops here: convert the file; nothing else was looked at.",
    unit="texts",
)
NOT_UTF8 = Reason(
    "not UTF-8",
    "error",
    "Training stops here: find out the file's encoding and convert it, for example with iconv -f cp1252 -t utf-8.",
)
NO_TAB = Reason(
    "row without a tab",
    "error",
    "Training stops here: each row of a TSV is the source, a tab and the target; mend or remove these rows.",
    unit="rows",
)
BAD_JSON = Reason(
    "unreadable JSON",
    "error",
    "Training stops here: mend or remove these rows.",
    unit="rows",
)
QUOTED = Reason(
    "spreadsheet quoting",
    "warning",
    "A spreadsheet put cells in quotes and doubled those inside, and the model would learn that: read the table with "
    'csv.reader(file, "excel-tab") of Python and write it without.',
    unit="rows",
)
ODD_COLUMNS = Reason(
    "odd number of columns",
    "warning",
    "Only the first two columns are read; a tab inside a sentence shifts the rest: look at these rows.",
    unit="rows",
)
OUT_OF_STEP = Reason(
    "out of step",
    "error",
    "The two sides have slipped: find the line that one side lacks at the place given, and mend it there.",
    unit="pairs",
)
UNRELATED = Reason(
    "unrelated lengths",
    "error",
    "Long sentences stand beside short ones here as if by chance: look whether these lines translate each other.",
    unit="pairs",
)

# Characters.
BOM = Reason("byte-order mark", "note", "Nothing to do: reading drops it at the start of a file.")
BOM_INSIDE = Reason(
    "byte-order mark inside",
    "warning",
    "Files were joined with their byte-order marks: remove U+FEFF, or train with --clean.characters.",
    Flag.CHARACTERS,
)
WINDOWS_ENDS = Reason("Windows line ends", "note", "Nothing to do: reading drops the carriage return at a line's end.")
CARRIAGE_RETURN = Reason(
    "carriage return inside",
    "warning",
    "A line may be two: split or remove these, or train with --clean.characters.",
    Flag.CHARACTERS,
)
NUL = Reason(
    "NUL",
    "warning",
    "Zero bytes come from damaged or binary files, or UTF-16: remove these lines, or train with --clean.characters.",
    Flag.CHARACTERS,
    grave=0.1,
)
LINE_BREAK = Reason(
    "exotic line break",
    "warning",
    "Other programs may end a line here and lose the alignment: replace them by spaces, or train with "
    "--clean.characters.",
    Flag.CHARACTERS,
)
CONTROL = Reason(
    "control character",
    "warning",
    "Control characters are no text: remove them, or train with --clean.characters.",
    Flag.CHARACTERS,
)
REPLACEMENT = Reason(
    "replacement character",
    "warning",
    "U+FFFD stands where a letter was lost in a conversion: convert again from the original, or train with "
    "--clean.characters.",
    Flag.CHARACTERS,
)
MOJIBAKE = Reason(
    "wrong encoding",
    "warning",
    "UTF-8 was read as Latin-1 or Windows-1252 somewhere: repair it (ftfy does that), or train with "
    "--clean.characters.",
    Flag.CHARACTERS,
)
READ_AS_LATIN1 = Reason(
    "Windows-1252 read as Latin-1",
    "warning",
    "Quotation marks, dashes and the like were lost in a conversion from Latin-1: convert the original again with "
    "iconv -f cp1252 -t utf-8, or train with --clean.characters.",
    Flag.CHARACTERS,
)
MARKUP = Reason(
    "HTML entities or tags",
    "note",
    "The model learns them as words: unless what it is to translate has them as well, turn entities into characters "
    "(html.unescape of Python does that) and delete tags.",
    grave=0.001,
)
PRIVATE_USE = Reason(
    "private-use character",
    "warning",
    "These mean something in one font only: replace them, or train with --clean.characters.",
    Flag.CHARACTERS,
)
INVISIBLE = Reason(
    "invisible character",
    "note",
    "Zero-width and direction marks, soft hyphens: harmless where meant, otherwise remove them.",
)
TAB = Reason("tab", "note", "Tabs are kept as they are; several may be columns of a table that went astray.")
NOT_NFC = Reason(
    "not in NFC",
    "note",
    "The same letter can be written in two ways, and these lines use the one that NFC replaces: convert with "
    "uconv -x nfc, or train with --text.normalization nfkc.",
    grave=0.2,
)
MIXED_FORMS = Reason(
    "NFC and NFD mixed",
    "note",
    "The same word is spelt in two ways inside the computer: convert with uconv -x nfc, or train with "
    "--text.normalization nfkc.",
    grave=0.001,
)

# Pairs.
EMPTY = Reason(
    "empty side", "note", "Nothing to do: training leaves these pairs out.", Flag.EMPTY, grave=0.02, unit="pairs"
)
COPY = Reason(
    "source = target",
    "note",
    "Copies teach the model to leave text untranslated: train with --clean.copies.",
    Flag.COPY,
    grave=0.005,
    unit="pairs",
)
ALL_COPIED = Reason(
    "both sides the same",
    "error",
    "The model would learn to leave text as it is: look whether both sides were made from one file.",
    unit="pairs",
)
SHORT_COPY = Reason(
    "short source = target",
    "note",
    "Names, numbers and single words are often the same in both languages: nothing to do.",
    grave=0.25,
    unit="pairs",
)
RATIO = Reason(
    "length ratio",
    "note",
    "One side says far more than the other: look at these, or train with --clean.ratio.",
    Flag.RATIO,
    grave=0.005,
    unit="pairs",
)
LONG = Reason(
    "long line", "note", "Training leaves out what exceeds --text.max-length subwords: split long lines.", grave=0.02
)
TOO_LONG = Reason(
    "very long line",
    "warning",
    "SentencePiece skips lines beyond 16,384 bytes, and training leaves them out: split them.",
)
DUPLICATE = Reason(
    "duplicate pair",
    "note",
    "A few do no harm; many give these sentences too much weight: train with --clean.duplicates.",
    Flag.DUPLICATE,
    grave=0.1,
    unit="pairs",
)
NEAR_DUPLICATE = Reason(
    "near-duplicate pair",
    "note",
    "They differ in case, digits, spaces and punctuation alone: train with --clean.near-duplicates if there are many.",
    Flag.NEAR_DUPLICATE,
    grave=0.25,
    unit="pairs",
)
OVERLAP = Reason(
    "also in held-out text",
    "warning",
    "Scores would be too good: training leaves these pairs out (--clean.overlap).",
    Flag.OVERLAP,
    grave=0.5,
    unit="pairs",
)
NEAR_OVERLAP = Reason(
    "almost in held-out text",
    "note",
    "They differ from a held-out pair in case, digits, spaces and punctuation alone: scores flatter a little.",
    grave=0.01,
    unit="pairs",
)
SHARED = Reason(
    "also in validation text",
    "warning",
    "What is chosen by validation is chosen by these, too: leave them out of one of the two texts.",
    grave=0.5,
    unit="pairs",
)
SOURCE_OVERLAP = Reason(
    "source in held-out text",
    "note",
    "The same source with another translation: `dragoman split` keeps a sentence and its translations together.",
    grave=0.01,
    unit="pairs",
)
TARGET_OVERLAP = Reason(
    "target in held-out text",
    "note",
    "Another source with the same translation, which the model learns to write: `dragoman split` leaves these out.",
    grave=0.01,
    unit="pairs",
)

# Languages.
WRONG_SCRIPT = Reason(
    "wrong script",
    "warning",
    "Most letters belong to another script than the language is written in: look at these, or train with "
    "--clean.language.",
    Flag.LANGUAGE,
)
OTHER_SIDE = Reason(
    "language of the other side",
    "warning",
    "Text that was left untranslated, judging by its letters: look at these, or train with --clean.language.",
    Flag.LANGUAGE,
)
THIRD_LANGUAGE = Reason(
    "third language",
    "warning",
    "Text in neither of the two languages, judging by its words: look at these, or train with --clean.language.",
    Flag.LANGUAGE,
)
SWAPPED = Reason(
    "sides swapped",
    "warning",
    "Source and target have changed places: swap them back, or train with --clean.language.",
    Flag.LANGUAGE,
    unit="pairs",
)
ALL_SWAPPED = Reason(
    "text the wrong way round",
    "error",
    "The source file is in the target's language and the other way round: swap --source and --target, or the files.",
    unit="pairs",
)
UNEXPECTED_LANGUAGE = Reason(
    "unexpected language",
    "warning",
    "A side is mostly in another language than its code says: look whether file and code belong together.",
)
UNEXPECTED_SCRIPT = Reason(
    "unexpected script",
    "warning",
    "A side is mostly in another script than its language code says: name the script (sr-Latn), or look at the file.",
)

UNREADABLE = frozenset(
    reason.name for reason in (COUNTS_DIFFER, NO_PAIRS, WRONG_FORM, UTF16, NOT_UTF8, NO_TAB, BAD_JSON)
)
"""With these, training stops."""
