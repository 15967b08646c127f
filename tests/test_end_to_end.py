"""The whole path on real sentences: learn them by heart, save, load, translate."""

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import (
    CleaningConfig,
    ModelConfig,
    OptimizerConfig,
    SearchConfig,
    TextConfig,
    TrainConfig,
    ValidationConfig,
)
from dragoman.evaluation.scores import evaluate
from dragoman.inference.translator import Translator
from dragoman.train import run_training

PAIRS = [
    ("I have lost my passport.", "J'ai perdu mon passeport."),
    ("Where is the nearest pharmacy?", "Où se trouve la pharmacie la plus proche ?"),
    ("She has been waiting since this morning.", "Elle attend depuis ce matin."),
    ("Could you speak a little more slowly?", "Pourriez-vous parler un peu plus lentement ?"),
    ("It was raining when we left the house.", "Il pleuvait quand nous avons quitté la maison."),
    ("The children are playing in the garden.", "Les enfants jouent dans le jardin."),
    ("I don't think that he will come.", "Je ne pense pas qu'il vienne."),
    ("My brother works in a bank.", "Mon frère travaille dans une banque."),
    ("What time does the museum open?", "À quelle heure ouvre le musée ?"),
    ("We would like to order dessert.", "Nous aimerions commander un dessert."),
    ("He forgot to close the window.", "Il a oublié de fermer la fenêtre."),
    ("There is nothing in the fridge.", "Il n'y a rien dans le frigo."),
    ("They arrived too late.", "Ils sont arrivés trop tard."),
    ("This book is more interesting than the film.", "Ce livre est plus intéressant que le film."),
    ("I need a pair of gloves.", "J'ai besoin d'une paire de gants."),
    ("The train to Lyon leaves from platform three.", "Le train pour Lyon part du quai numéro trois."),
    ("Nobody knows the answer.", "Personne ne connaît la réponse."),
    ("My grandmother makes good jam.", "Ma grand-mère fait de bonnes confitures."),
    ("You should see a doctor.", "Tu devrais voir un médecin."),
    ("All cats are grey at night.", "La nuit, tous les chats sont gris."),
]
DIGITS = dict(zip("0123456789", "〇一二三四五六七八九", strict=True))


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> str:
    for language, side in (("xx", 0), ("yy", 1)):
        (folder / f"{name}.{language}").write_text("".join(p[side] + "\n" for p in pairs), encoding="utf-8")
    return str(folder / name)


def learn(folder: Path, train: str, valid: str, steps: int, vocab_size: int) -> Translator:
    config = TrainConfig(
        source="xx",
        target="yy",
        train=[train],
        valid=[valid],
        out=str(folder / "model"),
        max_steps=steps,
        clean=CleaningConfig(overlap=False),
        model=replace(ModelConfig(), d_model=64, d_ff=128, num_heads=4, num_encoder_layers=2, num_decoder_layers=2),
        text=TextConfig(vocab_size=vocab_size),
        optimizer=OptimizerConfig(schedule="linear", peak_lr=3e-3, warmup_steps=30, batch_tokens=1500),
        validation=ValidationConfig(every=steps, keep_last=1),
    )
    assert run_training(replace(config, model=replace(config.model, dropout=0.0))).reason == "limit"
    return Translator.load(folder / "model", "cpu", "torch", "fp32")


@pytest.mark.timeout(120)
def test_twenty_real_pairs_are_learned_by_heart(tmp_path: Path) -> None:
    text = write(tmp_path, "pairs", PAIRS)
    translator = learn(tmp_path, text, text, steps=150, vocab_size=500)
    sources, references = [s for s, _ in PAIRS], [t for _, t in PAIRS]
    for beam in (1, 4):
        translations = translator.translate(sources, SearchConfig(beam=beam))
        assert [t.text for t in translations] == references
        assert evaluate([t.text for t in translations], references, "fr")["bleu"] == pytest.approx(100.0)
    again = Translator.load(tmp_path / "model", "cpu", "torch", "fp32").translate(sources)
    assert again == translator.translate(sources)
    # What translate says of a translation, score says of the pair.
    scored = translator.score(PAIRS)
    assert [s.log_prob for s in scored] == pytest.approx([t.log_prob for t in again], abs=1e-3)
    assert [s.score(0.6) for s in scored] == pytest.approx([t.score for t in again], abs=1e-3)


@pytest.mark.timeout(180)
def test_a_language_without_spaces_is_learned_and_written_exactly(tmp_path: Path) -> None:
    numbers = [str(i * 7919 % 1000) for i in range(1000)]
    pairs = list(dict.fromkeys((n, "第" + "".join(DIGITS[d] for d in n) + "号、您好！") for n in numbers))
    train, unseen = write(tmp_path, "train", pairs[:600]), pairs[600:660]
    translator = learn(tmp_path, train, write(tmp_path, "valid", unseen), steps=300, vocab_size=320)
    texts = [target for _, target in pairs]
    assert translator.vocabulary.target.decode(translator.vocabulary.target.encode(texts)) == texts
    translations = [t.text for t in translator.translate([source for source, _ in unseen])]
    right = sum(t == target for t, (_, target) in zip(translations, unseen, strict=True))
    assert right >= 0.95 * len(unseen)
    assert not any(" " in t for t in translations)
