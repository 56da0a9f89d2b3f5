"""The form of docs/howto/device.md, as it stands there, in a browser, with a backend of a few lines."""

import csv
import json

import pytest

import adobest_pp as ad
from adobest_pp.device import read_device
from tests.docs.blocks import DOCS, blocks_of
from tests.report.browser import CHROMIUM, chromium

PAGE = DOCS / "howto" / "device.md"


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_form_fills_a_file_that_gather_reads(tmp_path):
    blocks = blocks_of(PAGE)
    (form,) = [block.text for block in blocks if block.language == "html"]
    names = {"__name__": "page"}
    first = next(block for block in blocks if block.language == "{code-cell}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        exec(compile(first.text, str(PAGE), "exec"), names)
    rows = []

    def serve(route):
        name = route.request.url.rpartition("/")[2]
        if name == "answers":
            rows.append(json.loads(route.request.post_data))
            route.fulfill(status=204)
        else:
            body = {"adobest.js": read_device(), "question.json": names["text"].encode(), "": form.encode()}[name]
            kind = "text/javascript" if name.endswith(".js") else "text/html"
            route.fulfill(body=body, content_type=f"{kind}; charset=utf-8")

    with chromium() as browser, browser.new_context() as context:
        problems, page = [], context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda problem: problems.append(str(problem)))
        context.route("**/*", serve)
        page.goto("https://survey.test/")
        for i in range(30):
            page.get_by_label(names["labels"][i % 3], exact=True).check()
            page.get_by_role("button").click()
            page.wait_for_function("document.querySelector('output').textContent === 'Thank you.'")
            page.evaluate("document.querySelector('output').textContent = ''")
            assert page.locator("input:checked").count() == 0
        assert page.url == "https://survey.test/"
    assert problems == []

    path = tmp_path / "answers.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["answer"])
        writer.writeheader()
        writer.writerows(rows)
    gathered = ad.gather(path, names["mechanism"], categories=names["labels"], progressbar=False)
    assert gathered.evidence().count.sum() == 30
    assert len({row["answer"] for row in rows}) == 3  # fails by chance with probability below 1e-4
