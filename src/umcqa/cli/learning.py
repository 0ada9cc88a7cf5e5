"""Commands of the second stage: train, predict, export."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from umcqa.cli.engines import EngineFlags, counts_of, question_source
from umcqa.cli.options import (
    Columns,
    Data,
    Json,
    Limit,
    Offline,
    Split,
    data_config,
    print_json,
    warn_limit,
    with_flags,
)

TRAINED_MODEL = (
    "A model that umcqa train wrote, the folder of a run (all its models), or a multiple-choice "
    "model's folder or hub id."
)


@dataclass
class TrainFlags:
    """The flags of commands that train; each is a field of `TrainConfig`."""

    model: Annotated[
        str | None,
        typer.Option(
            help="What to start from: chooser, smollm2, gemma (language models), small-chooser, "
            "minilm, mpnet, reader (encoders), a folder, a GGUF file or a hub id."
        ),
    ] = None
    objective: Annotated[
        str | None, typer.Option(help="highest-only, mml, hard-em, soft or supervised.")
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(
            help="Values for what is not given: paper, small (encoders on small sets), lm."
        ),
    ] = None
    epochs: Annotated[int | None, typer.Option(min=1)] = None
    batch_size: Annotated[int | None, typer.Option(min=1, help="Questions of a step.")] = None
    learning_rate: Annotated[float | None, typer.Option(min=0.0)] = None
    max_length: Annotated[
        int | None, typer.Option(min=8, help="Tokens of passage, question and choice.")
    ] = None
    dropout: Annotated[float | None, typer.Option(min=0.0, max=0.9)] = None
    warmup: Annotated[
        float | None, typer.Option(min=0.0, help="Steps; up to 1, a share of the run.")
    ] = None
    tau: Annotated[
        float | None,
        typer.Option(min=0.0, help="Hard-EM: when it is hard; steps, or up to 1 a share."),
    ] = None
    annealing: Annotated[
        str | None, typer.Option(help="Hard-EM: release (soft to hard) or printed (the paper's).")
    ] = None
    sharpness: Annotated[
        float | None,
        typer.Option(min=0.0, help="soft: targets are the softmax of scores times this."),
    ] = None
    outside: Annotated[
        float | None,
        typer.Option(min=0.0, help="soft: what choices that are no candidates keep of theirs."),
    ] = None
    progressive: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="soft: the share of a target that is the model's own, at the end.",
        ),
    ] = None
    confident: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Learn from that share of the questions, the clearest; rounds let it grow to 1.",
        ),
    ] = None
    likelihood: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="How much the likelihood of the right choices counts (language models)."
        ),
    ] = None
    long: Annotated[
        str | None, typer.Option(help="Passages that do not fit: cut, or windows (best sentences).")
    ] = None
    lora_rank: Annotated[
        int | None, typer.Option(min=0, help="Train an adapter of that rank (language models).")
    ] = None
    use_labels: Annotated[
        bool | None,
        typer.Option("--use-labels/--no-labels", help="Where an answer is given, learn from it."),
    ] = None
    most_labels: Annotated[
        int | None, typer.Option(min=1, help="Use only so many of the answers, at random.")
    ] = None
    precision: Annotated[
        str | None, typer.Option(help="float32 or bfloat16; by default the faster here.")
    ] = None

    def given(self) -> dict[str, Any]:
        """As fields of a `TrainConfig`; None where not given."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@with_flags(TrainFlags)
def train_command(
    data: Data,
    out: Annotated[Path, typer.Option(help="The model's folder.")],
    candidates: Annotated[
        Path | None, typer.Option(help="What umcqa select wrote for the same questions.")
    ] = None,
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    tau_sweep: Annotated[
        list[float] | None,
        typer.Option(min=0.0, help="Train a model for each tau, in folders tau-T of --out."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--restart",
            help="Go on where a stopped run was (the default), or begin anew.",
        ),
    ] = True,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0.0, help="How often the run is saved.")
    ] = 300.0,
    offline: Offline = False,
    json: Json = False,
    *,
    flags: TrainFlags,
) -> None:
    """Train a multiple-choice model on candidates, without a label."""
    from umcqa.config import TrainConfig, override
    from umcqa.display import show_training
    from umcqa.models import go_offline
    from umcqa.stages import open_data
    from umcqa.training import train

    if offline:
        go_offline()
    config = override(
        TrainConfig(seed=seed, checkpoint_seconds=checkpoint_seconds), **flags.given()
    )
    questions = open_data(data_config(data, split, limit, columns))
    runs = {out / f"tau-{tau:g}": replace(config, tau=tau) for tau in tau_sweep or []}
    reports = {
        folder.name: train(questions, candidates, out=folder, config=one, restart=not resume)
        for folder, one in (runs or {out: config}).items()
    }
    if int(os.environ.get("RANK", "0")):  # of several processes, the first speaks
        return
    if json:
        print_json({"sweep": reports} if runs else reports[out.name])
    else:
        for report in reports.values():
            show_training(report)
    warn_limit(limit)


@with_flags(EngineFlags)
def predict_command(
    model: Annotated[str, typer.Option(help=TRAINED_MODEL)],
    data: Data,
    out: Annotated[str, typer.Option(help="Where to write the predictions (.jsonl).")],
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Questions taken at a time; the result is the same.")
    ] = 256,
    workers: Annotated[int, typer.Option(min=1, help="Of Ray: processes with a model each.")] = 1,
    offline: Offline = False,
    json: Json = False,
    *,
    engine: EngineFlags,
) -> None:
    """Answer questions with a trained model."""
    from umcqa.models import go_offline
    from umcqa.run_folder import identify_trained
    from umcqa.stages import open_data, predict_to_file

    if offline:
        go_offline()
    if engine.is_ray:
        from umcqa.scale.work import PredictWork

        work = PredictWork(model, batch_size, question_source(split, columns))
        key = {"model": identify_trained(model), "batch": batch_size, "split": split}
        made = engine.run(work, data, out, {**key, "columns": columns}, workers, limit)
    else:
        questions = open_data(data_config(data, split, limit, columns))
        made = predict_to_file(questions, model, Path(out), batch_size)
    if json:
        print_json({**counts_of(made), "out": out})
    else:
        print(f"answered {made['n']} questions: {out}")
    warn_limit(limit)


def export_command(
    model: Annotated[str, typer.Option(help="A trained encoder, or language model.")],
    out: Annotated[Path, typer.Option(help="The folder for the exported model.")],
    adapter_rank: Annotated[
        int | None,
        typer.Option(min=1, help="Make an adapter of that rank over its start, a small file."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a trained encoder as ONNX, or a trained model as an adapter over its start.

    Both are compared with the original.
    """
    result: dict[str, Any]
    if adapter_rank is not None:
        from umcqa.neural.adapter_export import export_adapter

        result = export_adapter(model, out, adapter_rank)
    else:
        from umcqa.neural.onnx_export import export_encoder

        result = export_encoder(model, out)
    if json:
        print_json(result)
    else:
        print(f"wrote {out}: scores differ by at most {result['max_abs_diff']:.1e}")


COMMANDS = {"train": train_command, "predict": predict_command, "export": export_command}
