import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Bayesian inference under local differential privacy")

with app.setup:
    import marimo as mo

    from adobest_pp.teaching.pages import LESSONS
    from adobest_pp.teaching.showing import prose


@app.cell
def _():
    prose(
        """
        # Learning from answers that nobody can hold against you

        Seven lessons of 10 to 15 minutes. Each has sliders, a picture that responds at once, questions to answer *before* you
        look, and an exercise that is checked. You need to know neither privacy nor MCMC: the first lesson begins with a coin.
        """
    )
    return


@app.cell
def _():
    _pages = mo.app_meta().mode not in ("run", "edit")
    _rows = []
    for _number, _lesson in enumerate(LESSONS, start=1):
        _link = f"{_lesson.file.removesuffix('.py')}.html" if _pages else f"./{_number}"
        _rows.append(f"| {_number} | [{_lesson.title}]({_link}) | {_lesson.about} |")
    prose("| | lesson | what it is about |\n|---|---|---|\n" + "\n".join(_rows))
    return


@app.cell
def _():
    prose(
        """
        - **You teach?** Each lesson begins with notes for one hour and thirty students.
        - **You know PyMC but nothing about privacy?** Begin with lessons 1 and 3, then 7.
        - **You know randomized response but nothing about MCMC?** Begin with lesson 2, then 5 and 6.

        A test fails if a number in these lessons is no longer what the code computes.
        """
    )
    return


if __name__ == "__main__":
    app.run()
