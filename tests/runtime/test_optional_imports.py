import pytest

from dragoman.config import DragomanError
from dragoman.runtime.optional_imports import import_optional


def test_an_installed_module_is_imported() -> None:
    assert import_optional("json.decoder", "x").JSONDecoder


def test_a_missing_module_is_named_with_its_extra() -> None:
    with pytest.raises(DragomanError, match=r"no_such_library is not usable.*pip install 'dragoman\[argos\]'"):
        import_optional("no_such_library.inner", "argos")
