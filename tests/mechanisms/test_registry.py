"""Mechanisms by name: ours at once, those of other packages if a person names them, and none because a file does."""

import json
import sys
import textwrap

import numpy as np
import pyarrow.parquet as pq
import pytest

import adobest_pp as ad
from adobest_pp._files import seal
from adobest_pp.answers import Gathered
from adobest_pp.answers.gather.tables import table_of
from adobest_pp.answers.store import Content, QuestionAnswers
from adobest_pp.mechanisms import SRR, SubsetSelection, find_mechanism, mechanism_from_settings, registry
from adobest_pp.mechanisms.registry import build_mechanism, mechanism_names
from tests.own_mechanism import Neighbors
from tests.refusals import refuses


def install(folder, name, *points, group=registry.GROUP):
    """Make a package with entry points, as an installer leaves it."""
    found = folder / f"{name}-1.0.dist-info"
    found.mkdir()
    (found / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (found / "entry_points.txt").write_text("\n".join([f"[{group}]", *points, ""]))


@pytest.fixture
def installed(tmp_path, monkeypatch, no_other_mechanisms):
    """A package that has a mechanism as an entry point, and one that is none."""
    install(tmp_path, "neighbors", "Neighbors = tests.own_mechanism:Neighbors", "nothing = math:pi")
    monkeypatch.syspath_prepend(tmp_path)


def test_ours_are_found_without_asking_every_package(monkeypatch):
    """That takes 20 ms, and a study builds a mechanism for each of thousands of runs."""
    monkeypatch.setattr(registry, "entry_points", lambda **_: pytest.fail("packages were asked"))
    assert find_mechanism("subset-selection") is SubsetSelection
    assert build_mechanism("srr", n_categories=3, epsilon=1.0) == SRR(3, 1.0)


def test_an_entry_point_is_found_by_its_name(installed):
    assert "Neighbors" in mechanism_names()
    assert find_mechanism("neighbors") is Neighbors
    assert mechanism_names().count("Neighbors") == 1  # it is registered now
    with refuses("mechanism"):
        find_mechanism("nothing")
    with refuses("mechanism"):
        find_mechanism("nowhere")


# ---------------------------------------------------------------- what is typed, and what is read
SETTINGS = {"n_categories": 3, "epsilon": 1.0}


@pytest.fixture
def stranger(tmp_path, monkeypatch, no_other_mechanisms):
    """A module in the current folder, and a package there with an entry point; tell which were imported."""
    source = """
        from dataclasses import dataclass
        from adobest_pp import SRR
        class Stranger(SRR):
            pass
    """
    for name in ("stranger_module", "stranger_package"):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
    install(tmp_path, "stranger_package", "Stranger = stranger_package:Stranger")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield lambda: [name for name in ("stranger_module", "stranger_package") if name in sys.modules]
    for name in ("stranger_module", "stranger_package"):
        sys.modules.pop(name, None)


def plant(settings):
    """Return settings like those of a file, with the mechanism of a stranger; nested ones too."""
    return [settings, {"mechanism": "Mixed", "parts": [settings, settings]}]


def read_netcdf(settings, path):
    dataset = ad.Responses.from_arrays(SRR(3, 1.0), [0, 1]).to_xarray()
    dataset.attrs["mechanism_settings"] = json.dumps(settings)
    dataset.to_netcdf(path / "answers.nc", engine="h5netcdf")
    ad.Responses.from_netcdf(path / "answers.nc")


def read_parquet(settings, path):
    table = table_of(ad.Responses.from_arrays(SRR(3, 1.0), [0, 1]))
    ((key, found),) = table.schema.metadata.items()
    metadata = {key: json.dumps(json.loads(found) | {"mechanism_settings": settings})}
    pq.write_table(table.replace_schema_metadata(metadata), path / "answers.parquet")
    ad.gather(path / "answers.parquet", progressbar=False)


def read_store(settings, path):
    ad.Responses.from_arrays(ad.SubsetSelection(40, 1.0), np.arange(11)[None]).to_parquet(path / "sets.parquet")
    ad.gather(path / "sets.parquet", store=path / "store", progressbar=False)
    (notes,) = [each for each in (path / "store").iterdir() if each.suffix == ".json"]
    content = json.loads(notes.read_text())
    notes.write_bytes(seal(content["content"] | {"mechanism_settings": settings}))  # a stranger can do that, too
    Gathered.open(path / "store")


HEADER = {"mechanism": SRR(3, 1.0).settings(), "categories": ["a", "b", "c"]}


def read_events(settings, path):
    QuestionAnswers.stored(Content(HEADER, [{}, {"mechanism": settings}], {}))


def read_header(settings, path):
    QuestionAnswers.stored(Content(HEADER | {"mechanism": settings}, [{}], {}))


@pytest.mark.parametrize("read", [read_netcdf, read_parquet, read_store, read_events, read_header])
def test_reading_imports_nothing(stranger, tmp_path, read):
    for name in ("stranger_module:Stranger", "stranger_package:Stranger", "Stranger", "stranger_module"):
        for settings in plant({"mechanism": name} | SETTINGS):
            folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            with pytest.raises(ValueError, match="import the module of your mechanism and register the class first"):
                read(settings, folder)
    assert stranger() == []


def test_what_is_typed_is_imported_and_known_from_then_on(stranger):
    assert find_mechanism("Stranger").__module__ == "stranger_package"  # an entry point, by its name
    assert stranger() == ["stranger_package"]
    assert type(mechanism_from_settings({"mechanism": "Stranger"} | SETTINGS)).__module__ == "stranger_package"
    with refuses("mechanism"):
        find_mechanism("stranger_module:Stranger")  # two classes of one name: a file could mean either


def test_a_class_that_is_typed_is_registered(stranger):
    kind = find_mechanism("stranger_module:Stranger")
    assert mechanism_from_settings(kind(3, 1.0).settings()) == kind(3, 1.0)
    assert find_mechanism("adobest_pp.mechanisms.srr:SRR") is SRR
    for path in ("adobest_pp.mechanisms:Mechanism", "stranger_module:SRR.x", ".stranger_module:Stranger", "math:pi"):
        with refuses("mechanism"):
            find_mechanism(path)


@pytest.mark.parametrize("name", ["subset-selection", "srr", "SRR ", "mixed", "", "Mechanism"])
def test_a_file_names_a_mechanism_exactly(name):
    with refuses("mechanism"):
        mechanism_from_settings({"mechanism": name} | SETTINGS)
