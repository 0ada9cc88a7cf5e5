"""Multiple-choice models of every kind, as tiny real ones with random weights."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMultipleChoice,
    AutoTokenizer,
    BertConfig,
    BertModel,
    BertTokenizer,
    DebertaV2Config,
    DebertaV2Model,
    DebertaV2Tokenizer,
    ElectraConfig,
    ElectraModel,
    LlamaConfig,
    LlamaForCausalLM,
    MPNetConfig,
    MPNetModel,
    MPNetTokenizer,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizer,
)

import umcqa
from conftest import make_question
from tiny_models import LETTERS, STORY, WORDS, write_tiny_lm
from umcqa.errors import InputError
from umcqa.neural.chooser import Chooser, ChooserSettings
from umcqa.neural.choosers import kind_of, load_chooser, start_chooser
from umcqa.neural.encoder_chooser import EncoderChooser, start_encoder
from umcqa.neural.lm_chooser import HEAD_FILE, LanguageModelChooser, start_language_model
from umcqa.neural.story import CHOICE, PASSAGE, QUESTION, StoryBuilder
from umcqa.question import Question
from umcqa.scoring.sentences import sentences

# Weights as large as these make scores that differ by more than any tolerance below.
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
}
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def numbered(*special: str, words: Sequence[str]) -> dict[str, int]:
    return {word: i for i, word in enumerate(dict.fromkeys([*special, *words]))}


def make_bert() -> tuple[Any, Any]:
    vocabulary = numbered("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", words=[*WORDS, *LETTERS])
    config = BertConfig(vocab_size=len(vocabulary), **SHAPE)
    return BertTokenizer(vocab=vocabulary), BertModel(config, add_pooling_layer=False)


def make_electra() -> tuple[Any, Any]:
    tokenizer, _ = make_bert()
    return tokenizer, ElectraModel(
        ElectraConfig(vocab_size=len(tokenizer), embedding_size=16, **SHAPE)
    )


def make_roberta() -> tuple[Any, Any]:
    vocabulary = numbered("<s>", "<pad>", "</s>", "<unk>", "<mask>", words=BYTES)
    config = RobertaConfig(vocab_size=len(vocabulary), **SHAPE)
    tokenizer = RobertaTokenizer(vocab=vocabulary, merges=[])
    return tokenizer, RobertaModel(config, add_pooling_layer=False)


def make_mpnet() -> tuple[Any, Any]:
    vocabulary = numbered("<s>", "<pad>", "</s>", "[UNK]", "<mask>", words=[*WORDS, *LETTERS])
    config = MPNetConfig(vocab_size=len(vocabulary), **SHAPE)
    return MPNetTokenizer(vocab=vocabulary), MPNetModel(config)


def make_deberta() -> tuple[Any, Any]:
    special = [(token, 0.0) for token in ("[PAD]", "[CLS]", "[SEP]", "[UNK]")]
    letters = [(letter, -3.0) for letter in ["▁", *map(chr, range(33, 127))]]
    tokenizer = DebertaV2Tokenizer(vocab=[*special, *letters])
    as_version_3: dict[str, Any] = {
        "relative_attention": True,
        "position_buckets": 16,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "type_vocab_size": 0,
    }
    config = DebertaV2Config(vocab_size=len(tokenizer), **SHAPE, **as_version_3)
    return tokenizer, DebertaV2Model(config)


ENCODERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "bert": make_bert,
    "electra": make_electra,
    "roberta": make_roberta,
    "mpnet": make_mpnet,
    "deberta": make_deberta,
}
# Questions with 4, 2, 3 and 5 choices; a blank to fill; passages of different lengths.
QUESTIONS = [
    make_question(0, choices=("to the park", "to the cat", "home", "an egg")),
    make_question(1, passage=STORY, question="The fox ate _ .", choices=("an egg", "the old barn")),
    make_question(2, passage=STORY, question="Who was not happy?", choices=("fox", "hen", "egg")),
    make_question(3, question="Who sat?", choices=("the dog", "a", "b", "the red fox", "hen")),
]


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in made:
            torch.manual_seed(0)
            made[kind] = save(ENCODERS[kind](), tmp_path_factory.mktemp(kind))
        return made[kind]

    return folder


def save(made: tuple[Any, Any], folder: Path) -> Path:
    for part in made:
        part.save_pretrained(folder)
    return folder


def fresh_encoder(folder: Path, **settings: Any) -> EncoderChooser:
    torch.manual_seed(1)  # for the head
    chooser = start_encoder(folder, ChooserSettings(**settings))
    chooser.module.eval()
    return chooser


@pytest.fixture(params=ENCODERS)
def any_encoder(request: pytest.FixtureRequest, encoder_folder: Callable[[str], Path]) -> Path:
    return encoder_folder(request.param)


@pytest.fixture
def bert(encoder_folder: Callable[[str], Path]) -> Path:
    return encoder_folder("bert")


def scores(chooser: Chooser, questions: Sequence[Question]) -> list[list[float]]:
    with torch.inference_mode():
        return [row.tolist() for row in chooser.logits(questions)]


def assert_close(found: list[list[float]], expected: list[list[float]], within: float) -> None:
    assert [len(row) for row in found] == [len(row) for row in expected]
    # Else all choices could get one score and nothing here would notice.
    assert max(map(max, expected)) - min(map(min, expected)) > 100 * within
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=within)


# Encoders


def test_sequences_are_those_of_the_tokenizer(any_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(any_encoder)
    inputs = fresh_encoder(any_encoder).inputs(QUESTIONS)
    pairs = [(q.passage, q.statement(choice)) for q in QUESTIONS for choice in q.choices]
    expected = tokenizer(*map(list, zip(*pairs, strict=True)), padding=True)
    assert (STORY, "The fox ate an egg .") in pairs  # the blank is filled
    assert {name: rows.tolist() for name, rows in inputs.items()} == dict(expected)


def test_scores_are_those_of_the_plain_model(any_encoder: Path, tmp_path: Path) -> None:
    chooser = fresh_encoder(any_encoder)
    chooser.save(tmp_path)
    model = AutoModelForMultipleChoice.from_pretrained(tmp_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    question = QUESTIONS[0]
    statements = [question.statement(choice) for choice in question.choices]
    batch = tokenizer([question.passage] * 4, statements, padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = model(**{name: rows[None] for name, rows in batch.items()}).logits.tolist()
    assert_close(scores(chooser, [question]), expected, 1e-5)


def test_scores_do_not_depend_on_the_rest_of_a_batch(any_encoder: Path) -> None:
    chooser = fresh_encoder(any_encoder)
    alone = [scores(chooser, [question])[0] for question in QUESTIONS]
    assert_close(scores(chooser, QUESTIONS), alone, 1e-5)


def test_the_longest_sequence_fits_the_model(any_encoder: Path) -> None:
    chooser = fresh_encoder(any_encoder, max_length=10_000)
    question = make_question(passage=STORY * 20)
    length = chooser.inputs([question])["input_ids"].shape[1]
    # RoBERTa and MPNet count positions from two.
    counts_from_two = AutoConfig.from_pretrained(any_encoder).model_type in ("roberta", "mpnet")
    assert length == (254 if counts_from_two else 256)
    assert len(scores(chooser, [question])[0]) == 3  # which positions beyond the last would prevent


def test_encoders_of_every_kind_predict(any_encoder: Path, tmp_path: Path) -> None:
    chooser = fresh_encoder(any_encoder)
    chooser.save(tmp_path)
    found = list(umcqa.predict(QUESTIONS, tmp_path))
    for question, row, one in zip(QUESTIONS, scores(chooser, QUESTIONS), found, strict=True):
        assert one.probabilities is not None
        assert one.evidence is not None
        # Prediction may run in bfloat16.
        expected = torch.tensor(row).softmax(-1).tolist()
        assert one.probabilities == pytest.approx(expected, abs=0.03)
        assert {place for places in one.evidence for place in places} <= set(
            sentences(question.passage)
        )


def test_passages_are_cut_and_statements_are_not(bert: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(bert)
    chooser = fresh_encoder(bert, max_length=24)
    question = make_question(passage=STORY, question="Who ran to the old barn?")
    whole = tokenizer(STORY, add_special_tokens=False)["input_ids"]
    statements = [
        tokenizer(question.statement(choice), add_special_tokens=False)["input_ids"]
        for choice in question.choices
    ]
    # Three special tokens; the longest choice decides, so that all see the same of the passage.
    room = 24 - 3 - max(map(len, statements))
    assert 0 < room < len(whole)
    first, separator = tokenizer.cls_token_id, tokenizer.sep_token_id
    inputs = chooser.inputs([question])
    rows = zip(inputs["input_ids"], inputs["attention_mask"], statements, strict=True)
    for ids, mask, statement in rows:
        expected = [first, *whole[:room], separator, *statement, separator]
        assert ids[mask.bool()].tolist() == expected
    assert chooser.is_cut(question)
    assert not fresh_encoder(bert).is_cut(question)


def test_statements_are_whole_even_without_room(bert: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(bert)
    chooser = fresh_encoder(bert, max_length=5)
    question = make_question(question="Who ran to the old barn?", choices=("fox", "hen"))
    first, separator = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert chooser.inputs([question])["input_ids"].tolist() == [
        [first, separator, *tokenizer(text)["input_ids"][1:-1], separator]
        for text in ("Who ran to the old barn? fox", "Who ran to the old barn? hen")
    ]
    with torch.inference_mode():
        (reading,) = chooser.read([question])
    assert reading.evidence == ((), ())  # of a passage that it has not seen


def test_windows_keep_the_sentence_that_shares_words(bert: Path) -> None:
    question = make_question(passage=STORY, question="Who was happy?", choices=("hen", "egg"))
    last = "The hen was not happy about that."
    alone = make_question(passage=last, question="Who was happy?", choices=("hen", "egg"))
    expected = fresh_encoder(bert).inputs([alone])["input_ids"]
    room = expected.shape[1]  # for that sentence and nothing else
    windows = fresh_encoder(bert, max_length=room, long="windows").inputs([question])["input_ids"]
    cut = fresh_encoder(bert, max_length=room, long="cut").inputs([question])["input_ids"]
    assert windows.tolist() == expected.tolist()
    assert cut.tolist() != expected.tolist()


def test_windows_keep_sentences_in_their_order(bert: Path) -> None:
    question = make_question(passage=STORY, question="Who was happy?", choices=("hen", "red fox"))
    both = "The red fox ran to the old barn. The hen was not happy about that."
    shorter = make_question(passage=both, question="Who was happy?", choices=("hen", "red fox"))
    expected = fresh_encoder(bert).inputs([shorter])["input_ids"]
    windows = fresh_encoder(bert, max_length=expected.shape[1], long="windows")
    assert windows.inputs([question])["input_ids"].tolist() == expected.tolist()


def test_a_question_longer_than_the_model_reads_is_refused(any_encoder: Path) -> None:
    question = make_question(7, question="fox " * 300)
    with pytest.raises(InputError, match=r"'q7': question and choice are \d+ tokens, and"):
        fresh_encoder(any_encoder).logits([question])


def test_the_head_is_drawn_from_the_seed(bert: Path) -> None:
    once, again = (scores(fresh_encoder(bert), QUESTIONS) for _ in range(2))
    assert once == again
    torch.manual_seed(2)
    other = start_encoder(bert, ChooserSettings())
    other.module.eval()
    assert scores(other, QUESTIONS) != once


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_is_what_was_asked_for(bert: Path, dropout: float) -> None:
    chooser = fresh_encoder(bert, dropout=dropout)
    chooser.module.train()
    once, again = (scores(chooser, QUESTIONS) for _ in range(2))
    assert (once == again) is (dropout == 0.0)


def test_an_encoder_without_a_head_predicts_nothing(bert: Path) -> None:
    with pytest.raises(InputError, match="cannot be loaded as a multiple-choice model"):
        list(umcqa.predict(QUESTIONS, bert))


# Language models


@pytest.fixture(scope="module")
def lm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a token for every byte: WordPiece has none for a line end. It starts texts with <s>."""
    vocabulary = numbered("<s>", "</s>", words=BYTES)
    plain = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        num_key_value_heads=2,
        **SHAPE | {"max_position_embeddings": 512},
    )
    torch.manual_seed(0)
    return save((tokenizer, LlamaForCausalLM(config)), tmp_path_factory.mktemp("byte-lm"))


def fresh_lm(folder: Path, **settings: Any) -> LanguageModelChooser:
    chooser = start_language_model(str(folder), ChooserSettings(**{"max_length": 512} | settings))
    chooser.module.eval()
    return chooser


def disturb(chooser: Chooser, *parts: str) -> None:
    """As if trained: what starts at zero or one is random."""
    torch.manual_seed(5)
    for name, parameter in chooser.module.named_parameters():
        if set(parts) & set(name.split(".")):
            torch.nn.init.normal_(parameter, std=0.1)


def score_alone(model: Any, tokenizer: Any, question: Question, choice: str) -> list[float]:
    """What a plain forward over a plain text says: mean log-probability, and last state."""
    before = PASSAGE.format(question.passage) + QUESTION.format(question.question)
    ids = tokenizer(before + CHOICE.format(choice) + "\n", return_tensors="pt")["input_ids"]
    start = len(tokenizer(before)["input_ids"])
    with torch.inference_mode():
        output = model(input_ids=ids, output_hidden_states=True)
    rows = torch.log_softmax(output.logits[0], -1)[start - 1 : -1]
    taken = rows.gather(1, ids[0, start:, None])
    return [float(taken.mean()), *output.hidden_states[-1][0, -1].tolist()]


def scores_alone(model: Any, tokenizer: Any, head: dict[str, Any] | None = None) -> Any:
    """Scores of all choices of the questions, each read in a sequence of its own."""
    found = []
    for question in QUESTIONS:
        rows = torch.tensor([score_alone(model, tokenizer, question, c) for c in question.choices])
        if head is not None:
            linear = rows[:, 1:] @ head["weight"][0] + head["bias"]
            found.append((head["factor"] * rows[:, 0] + linear).tolist())
        else:
            found.append(rows[:, 0].tolist())
    return found


def plain_lm(folder: Path) -> tuple[Any, Any]:
    return AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(
        folder
    )


def test_an_untrained_language_model_chooses_by_what_it_knows(lm_folder: Path) -> None:
    expected = scores_alone(*plain_lm(lm_folder))
    assert_close(scores(fresh_lm(lm_folder), QUESTIONS), expected, 1e-4)


def test_a_story_equals_every_choice_alone_with_a_trained_head_too(
    lm_folder: Path, tmp_path: Path
) -> None:
    chooser = fresh_lm(lm_folder)
    disturb(chooser, "head", "factor")
    chooser.save(tmp_path)
    head = load_file(tmp_path / HEAD_FILE)
    # The saved folder is a plain language model, with the head beside it.
    assert_close(scores(chooser, QUESTIONS), scores_alone(*plain_lm(tmp_path), head), 1e-4)
    assert_close(scores(load_chooser(str(tmp_path)), QUESTIONS), scores(chooser, QUESTIONS), 1e-5)


def test_the_order_of_questions_does_not_matter(lm_folder: Path) -> None:
    chooser = fresh_lm(lm_folder)
    order = [2, 0, 3, 1]
    moved = scores(chooser, [QUESTIONS[i] for i in order])
    in_order = scores(chooser, QUESTIONS)
    assert_close(moved, [in_order[i] for i in order], 1e-5)
    with torch.inference_mode():
        readings = list(chooser.read([QUESTIONS[i] for i in order]))
    assert_close([one.logits.tolist() for one in readings], moved, 1e-5)


def test_stories_that_are_too_long_are_read_in_parts(
    lm_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chooser = fresh_lm(lm_folder)
    questions = [make_question(n, question=f"Where did dog {n} run?") for n in range(5)]
    whole = scores(chooser, questions)
    monkeypatch.setattr("umcqa.neural.story._LONGEST", 220)  # two questions a story
    with torch.inference_mode():
        readings = list(chooser.read(questions))
    assert_close([one.logits.tolist() for one in readings], whole, 1e-4)
    assert_close(scores(chooser, questions), whole, 1e-4)


def test_an_adapter_loads_with_peft(lm_folder: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    chooser = fresh_lm(lm_folder, lora_rank=2)
    disturb(chooser, "lora_B", "head", "factor")
    chooser.save(tmp_path)
    assert not list(tmp_path.glob("model*.safetensors"))  # the base is not copied
    head = load_file(tmp_path / HEAD_FILE)
    base, tokenizer = plain_lm(lm_folder)
    expected = scores_alone(PeftModel.from_pretrained(base, tmp_path).eval(), tokenizer, head)
    assert_close(scores(chooser, QUESTIONS), expected, 1e-4)
    assert_close(scores(load_chooser(str(tmp_path)), QUESTIONS), expected, 1e-4)
    # The adapter does something.
    untouched = scores_alone(*plain_lm(lm_folder), head)
    assert max(abs(a - b) for a, b in zip(untouched[0], expected[0], strict=True)) > 0.01


def test_an_adapter_on_an_adapter_keeps_both(lm_folder: Path, tmp_path: Path) -> None:
    first = fresh_lm(lm_folder, lora_rank=2)
    disturb(first, "lora_B", "head", "factor")
    first.save(tmp_path / "first")
    second = fresh_lm(tmp_path / "first", lora_rank=2)  # adds nothing yet
    second.save(tmp_path / "second")
    expected = scores(first, QUESTIONS)
    assert_close(scores(second, QUESTIONS), expected, 1e-4)
    assert_close(scores(load_chooser(str(tmp_path / "second")), QUESTIONS), expected, 1e-4)


def test_gradients_reach_layers_and_head_but_not_word_vectors(lm_folder: Path) -> None:
    chooser = fresh_lm(lm_folder)
    disturb(chooser, "head")
    torch.stack([row.sum() for row in chooser.logits(QUESTIONS)]).sum().backward()
    moved = {name: parameter.grad for name, parameter in chooser.module.named_parameters()}
    frozen = {name for name, gradient in moved.items() if gradient is None}
    assert frozen == {"lm.model.embed_tokens.weight", "lm.lm_head.weight"}
    assert all(bool(gradient.any()) for gradient in moved.values() if gradient is not None)


def test_every_trained_parameter_learns_at_one_rate(lm_folder: Path) -> None:
    chooser = fresh_lm(lm_folder)
    groups = chooser.parameter_groups(1e-4, 0.01)
    grouped = [id(parameter) for group in groups for parameter in group["params"]]
    trained = [id(p) for p in chooser.module.parameters() if p.requires_grad]
    assert sorted(grouped) == sorted(trained)
    head = next(g for g in groups if any(p.numel() == 1 for p in g["params"]))
    assert head["lr"] == pytest.approx(1e-3)  # it starts from nothing


def test_language_models_cut_passages_only(lm_folder: Path) -> None:
    model, tokenizer = plain_lm(lm_folder)
    question = make_question(passage=STORY, question="Who was happy?", choices=("hen", "egg"))
    after = "Question: Who was happy?\nAnswer:"
    for long, kept in (
        ("cut", "Story: The red fox ran to the old"),
        (
            "windows",
            "Story: The hen was not happy about that.\n\n",
        ),
    ):
        # One byte is one token; before the text is <s>, after it the longest choice's " hen\n".
        room = 1 + len(kept) + len(after) + len(" hen\n")
        builder = StoryBuilder(model, tokenizer, "\n", max_length=room, long=long)
        (story,) = builder.build([question])
        assert tokenizer.decode(story.ids) == f"<s>{kept}{after} hen\n egg\n"
        assert builder.is_cut(question)
    chooser = fresh_lm(lm_folder, max_length=80)
    assert chooser.is_cut(question)
    assert not fresh_lm(lm_folder).is_cut(question)


def test_what_is_cut_does_not_depend_on_other_questions(lm_folder: Path) -> None:
    chooser = fresh_lm(lm_folder, max_length=120)
    question = make_question(0, passage=STORY, question="Who ran?")
    longer = make_question(1, passage=STORY, question="Who was it that ran to the old barn?")
    alone = scores(chooser, [question])
    assert_close(scores(chooser, [question, longer])[:1], alone, 1e-4)


def test_a_question_longer_than_a_language_model_reads_is_refused(lm_folder: Path) -> None:
    with pytest.raises(InputError, match=r"'q7' or one beside it .* \(512 tokens\)"):
        fresh_lm(lm_folder).logits([make_question(7, question="fox " * 200)])
    with pytest.raises(InputError, match=r"\(20 tokens\)"):
        fresh_lm(lm_folder, max_length=20).logits([make_question(7)])


@pytest.mark.parametrize("trouble", ["cut off", "other names", "other size", "text"])
def test_a_damaged_head_is_refused(lm_folder: Path, tmp_path: Path, trouble: str) -> None:
    folder = tmp_path / "model"
    fresh_lm(lm_folder).save(folder)
    path = folder / HEAD_FILE
    head = load_file(path)
    if trouble == "cut off":
        path.write_bytes(path.read_bytes()[:-4])
    elif trouble == "text":
        path.write_text("not weights at all")
    elif trouble == "other names":
        save_file({"weights": head["weight"]}, path)
    else:
        save_file(head | {"weight": torch.zeros(1, 16)}, path)
    refused = rf"{HEAD_FILE}: not (the head|a sound safetensors)"
    with pytest.raises(InputError, match=refused):
        load_chooser(str(folder))
    with pytest.raises(InputError, match=refused):
        fresh_lm(folder)


# Both


@pytest.fixture(params=["encoder", "lm"])
def trained(request: pytest.FixtureRequest, bert: Path, lm_folder: Path, tmp_path: Path) -> Path:
    """A folder as training leaves it."""
    is_encoder = request.param == "encoder"
    chooser: Chooser = fresh_encoder(bert) if is_encoder else fresh_lm(lm_folder)
    disturb(chooser, "head", "factor", "classifier")
    chooser.save(tmp_path / "model")
    return tmp_path / "model"


def test_predictions_do_not_depend_on_batches_or_order(trained: Path) -> None:
    def probabilities(questions: Sequence[Question], batch: int) -> dict[str, list[float]]:
        found = list(umcqa.predict(questions, trained, batch=batch))
        assert [one.id for one in found] == [question.id for question in questions]
        return {one.id: list(one.probabilities or ()) for one in found}

    whole = probabilities(QUESTIONS, 256)
    for other in (
        probabilities(QUESTIONS, 1),
        probabilities(QUESTIONS, 3),
        probabilities(QUESTIONS[::-1], 2),
    ):
        assert_close([other[q.id] for q in QUESTIONS], [whole[q.id] for q in QUESTIONS], 1e-5)


def test_a_prediction_is_the_choice_of_highest_probability(trained: Path) -> None:
    for question, one in zip(QUESTIONS, umcqa.predict(QUESTIONS, trained), strict=True):
        assert one.probabilities is not None
        assert sum(one.probabilities) == pytest.approx(1)
        assert one.answer == one.probabilities.index(max(one.probabilities))
        assert one.n_choices == len(question.choices)


def test_kinds_are_told_apart(bert: Path, lm_folder: Path, tmp_path: Path) -> None:
    assert kind_of(str(bert)) == "encoder"
    assert kind_of(str(lm_folder)) == "lm"
    assert kind_of(str(write_tiny_lm(tmp_path / "wordpiece"))) == "lm"
    fresh_encoder(bert).save(tmp_path / "encoder")
    assert kind_of(str(tmp_path / "encoder")) == "encoder"
    for rank in 0, 2:
        fresh_lm(lm_folder, lora_rank=rank).save(tmp_path / f"lm{rank}")
        assert kind_of(str(tmp_path / f"lm{rank}")) == "lm"
    assert start_chooser(str(bert), ChooserSettings()).kind == "encoder"
    assert start_chooser(str(lm_folder), ChooserSettings()).kind == "lm"


def test_an_unknown_architecture_is_named(bert: Path, tmp_path: Path) -> None:
    odd = Path(shutil.copytree(bert, tmp_path / "odd"))
    (odd / "config.json").write_text('{"model_type": "odd"}')
    with pytest.raises(InputError, match="not a model that transformers knows"):
        kind_of(str(odd))
