"""Write the phrasebook that the package ships."""

import gzip
import io

from dragoman.datasets.phrasebook import PHRASEBOOK_FILE, Phrasebook
from tools.phrasebook.corpus import generate_phrasebook


def as_table(book: Phrasebook) -> bytes:
    """Return the pairs as lines of part, English and French."""
    return "".join(f"{part}\t{en}\t{fr}\n" for part, pairs in book._asdict().items() for en, fr in pairs).encode()


def main() -> None:
    """Generate and write it; the same table gives the same file."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(as_table(generate_phrasebook()))
    PHRASEBOOK_FILE.write_bytes(packed.getvalue())


if __name__ == "__main__":
    main()
