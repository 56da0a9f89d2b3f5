"""Labels in any script can be read on figures: in a font that has them, or by their code points."""

import logging
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib import font_manager

from adobest_pp import plots
from adobest_pp.plots import _common as _fonts
from adobest_pp.plots._common import plain, save_figure, shorten

SCRIPTS = ["中文", "日本語", "한국어", "العربية", "🦊", "ไทย", "Ελλάδα"]


@pytest.fixture(autouse=True)
def closed():
    _fonts._warn.cache_clear()
    yield
    plt.close("all")


def draws_of(labels):
    theta = np.random.default_rng(0).dirichlet(np.ones(len(labels)), size=(2, 20))
    posterior = xr.Dataset({"theta": (("chain", "draw", "category"), theta)}, {"category": labels})
    return {"gibbs": xr.DataTree.from_dict({"posterior": posterior})}


def test_every_label_is_drawn_with_glyphs_or_by_code_point(tmp_path):
    """Matplotlib warns of each glyph that it has to draw a box for, and warnings are errors here."""
    axes = plots.plot_estimates(draws_of(SCRIPTS))
    save_figure(axes.figure, tmp_path, "estimates", 50)
    panels = plots.plot_traces(draws_of(SCRIPTS), SCRIPTS[:2])
    save_figure(panels[0, 0].figure, tmp_path, "traces", 50)


def test_a_character_that_no_font_has_is_told_by_its_code_point(monkeypatch, caplog):
    monkeypatch.setattr(_fonts, "installed", list)
    with caplog.at_level(logging.WARNING, logger="adobest_pp"):
        assert plain("a 中文 b") == "a U+4E2D U+6587 b"
        assert plain("a 中文 b") == "a U+4E2D U+6587 b"
        assert shorten("中$") == r"U+4E2D \$"
        assert shorten("中文中文") == "U+4E2D U+658…4E2D U+6587"
    assert [record.getMessage()[:43] for record in caplog.records] == [
        "No installed font has U+4E2D, U+6587: figur",
        "No installed font has U+4E2D: figures show ",
    ]
    # Different labels stay different, and what the usual font has is left alone.
    assert plain("中") != plain("国")
    assert plain("é Ω ж") == "é Ω ж"


def test_a_font_that_has_the_characters_is_chosen(tmp_path):
    """With a usual font of Latin letters alone, Cyrillic ones come from another that is installed."""
    latin = font_manager.findfont("cmr10")
    assert ord("Ж") not in _fonts.glyphs(latin)
    with plt.rc_context({"font.family": "cmr10", "axes.formatter.use_mathtext": True}):
        assert plain("Жук") == "Жук"
        names = [name for name, path in _fonts.fallbacks("Жук")]
        assert len(names) == 1
        axes = plots.plot_estimates(draws_of(["Жук", "ant"]))
        families = {text.get_text(): text.get_fontfamily() for text in axes.get_yticklabels()}
        assert families == {"Жук": ["cmr10", *names], "ant": ["cmr10"]}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            axes.figure.canvas.draw()


def test_as_few_fonts_as_needed_are_chosen_and_never_the_last_resort(monkeypatch):
    fonts = {"one": {0x4E2D}, "two": {0x4E2D, 0x6587}, "three": {0xD55C}}
    monkeypatch.setattr(_fonts, "installed", lambda: [(name, name) for name in fonts])
    real = _fonts.glyphs
    monkeypatch.setattr(_fonts, "glyphs", lambda path: fonts[path] if path in fonts else real(path))
    assert [name for name, _ in _fonts.fallbacks("中文한")] == ["two", "three"]
    assert plain("中文한글") == "中文한 U+AE00"
    monkeypatch.undo()
    assert not any(name.startswith("Last Resort") for name, _ in _fonts.installed())


def test_a_font_file_that_cannot_be_read_has_nothing(tmp_path):
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    assert _fonts.glyphs(str(tmp_path / "broken.ttf")) == frozenset()
