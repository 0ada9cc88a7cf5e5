"""What the kill -9 test starts: a reader's training with dropout, slowed so that it can be hit."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from umcqa.neural import reader_training
from umcqa.neural.loop import LoopSettings
from umcqa.neural.reader_features import BatchLimits
from umcqa.squad import QuestionFile


def main() -> None:
    encoder, rows, output = (Path(argument) for argument in sys.argv[1:4])
    pause = float(sys.argv[4])
    torch.set_num_threads(1)
    plain_loss = reader_training.reader_loss

    def slow_loss(*arguments: Any) -> torch.Tensor:
        time.sleep(pause)
        return plain_loss(*arguments)

    reader_training.reader_loss = slow_loss  # type: ignore[assignment] # the same, slowed
    loop = LoopSettings(epochs=30, learning_rate=1e-3, checkpoint_every_steps=7)
    recipe = replace(reader_training.BASE, loop=loop, batch=BatchLimits(max_windows=2))
    reader_training.train_reader(encoder, [QuestionFile(rows)], output, recipe)


if __name__ == "__main__":
    main()
