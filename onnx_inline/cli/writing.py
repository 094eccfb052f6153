"""What a command does with a model that it changed in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_inline.cli.job import Job
from onnx_inline.cli.output import write_text

if TYPE_CHECKING:
    import onnx


def load(job: Job) -> onnx.ModelProto:
    """Return the job's model without its weights."""
    from onnx_inline.files.protos import load_proto

    return load_proto(job.source, **job.reading())


def finish(job: Job, before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Write ``after`` where the job says, or print how it differs from ``before``."""
    if job.diff:
        from onnx_inline.reports.changes import model_diff

        write_text("-", model_diff(before, after, job.source))
    if job.target is not None:
        from onnx_inline.files.protos import save_proto

        save_proto(after, job.target, **job.writing())
