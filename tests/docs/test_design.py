"""The page about the design names every package."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")


def test_every_package_is_on_a_floor() -> None:
    top = [path for path in (ROOT / "dragoman").iterdir() if not path.name.startswith("__")]
    names = [f"{path.name}/" if path.is_dir() else path.name for path in top if path.suffix == ".py" or path.is_dir()]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
