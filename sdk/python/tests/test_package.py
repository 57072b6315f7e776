"""What the package holds (run by ci.sh, with the folder of the built package)."""

from __future__ import annotations

import email
import pathlib
import tarfile
import zipfile

import pytest


@pytest.fixture
def dist(request: pytest.FixtureRequest) -> pathlib.Path:
    folder = request.config.getoption("--package")
    if not folder:
        pytest.skip("--package does not name the folder of the built package")
    return pathlib.Path(str(folder))


def test_the_wheel_has_types_licences_and_no_dependency(dist: pathlib.Path) -> None:
    [wheel] = dist.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata_name] = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(metadata_name))
    assert "mainspring/py.typed" in names and "mainspring/_core/client.py" in names
    assert {name.rpartition("/")[2] for name in names if "LICENSE" in name} == {"LICENSE-MIT", "LICENSE-APACHE"}
    assert not any(name.startswith(("tests", "bench", "conformance")) for name in names)
    needed = [one for one in metadata.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert (
        needed == []
        and metadata["Requires-Python"] == ">=3.10"
        and metadata["License-Expression"] == "MIT OR Apache-2.0"
    )


def test_the_source_package_has_the_tests_and_licences(dist: pathlib.Path) -> None:
    [source] = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "README.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "pyproject.toml",
        "tests/test_wire.py",
        "src/mainspring/py.typed",
    } <= names


def test_what_is_tested_is_the_installed_package() -> None:
    import mainspring

    assert "site-packages" in str(mainspring.__file__)
    assert mainspring.__version__ == "0.1.0"
