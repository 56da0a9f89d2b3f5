"""The main job: collect answers, sample θ with every sampler, grade them, and write a report."""

from adobest_pp.report.findings import Findings, grade_samplers
from adobest_pp.report.folder import write_report

__all__ = ["Findings", "grade_samplers", "write_report"]
