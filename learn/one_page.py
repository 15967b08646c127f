"""The Transformer on one page: "Attention Is All You Need" in plain PyTorch, learning to spell words backwards.

    python learn/one_page.py

The whole model of the paper is here, and its training: attention, positions, layers, masks, label smoothing and the
learning-rate schedule; then greedy decoding. It needs PyTorch alone, and one or two minutes on a laptop. Dragoman's own
modules compute the same numbers from the same weights (a test compares them). They add what real texts need: subwords,
beam search and averages of checkpoints, as in the paper, and also bf16 and a cache.

Shapes: B batch, S source length, T target length, D d_model, H heads, K = D / H, V vocabulary.
"""

import math
import random
import string

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

PAD, BOS, EOS = 0, 1, 2  # padding, <s> and </s>
VOCABULARY = ["·", "<s>", "</s>", *string.ascii_lowercase]
D_MODEL, HEADS, D_FF, LAYERS, DROPOUT = 64, 4, 256, 2, 0.0  # the paper: 512, 8, 2048, 6, 0.1
STEPS, WARMUP, BATCH, SMOOTHING = 2000, 400, 64, 0.1  # the paper: 100,000, 4,000, about 700 sentences, 0.1


# ------------------------------------------------------------------------------------------ 3.2 attention


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Equation 1: softmax(Q Kᵀ / √d_k) V. Each query looks for keys that match it, and gets the mean of their values.

    Without √d_k, scores of long vectors would be so large that one key gets almost all weight, with almost no gradient.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
    scores = scores.masked_fill(~mask, -torch.inf)  # what may not be seen gets the weight 0
    weights = scores.softmax(dim=-1)
    return weights @ value, weights  # (B, H, T, K), (B, H, T, S)


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: several small attentions side by side, each with projections of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(D_MODEL, D_MODEL)
        self.key = nn.Linear(D_MODEL, D_MODEL)
        self.value = nn.Linear(D_MODEL, D_MODEL)
        self.output = nn.Linear(D_MODEL, D_MODEL)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Attend from query (B, T, D) to memory (B, S, D); self-attention is the case in which both are the same."""
        split = [
            projected.unflatten(-1, (HEADS, -1)).transpose(1, 2)  # (B, S, D) -> (B, H, S, K)
            for projected in (self.query(query), self.key(memory), self.value(memory))
        ]
        heads, self.weights = attention(*split, mask)
        return self.output(heads.transpose(1, 2).flatten(2))  # (B, T, D)


def causal_mask(length: int) -> Tensor:
    """Position i may see the positions j <= i (3.2.3): in training all positions are predicted at once."""
    return torch.ones(length, length, dtype=torch.bool).tril()  # (T, T)


# ------------------------------------------------------------------------------- 3.4, 3.5 words and positions


class ScaledEmbedding(nn.Module):
    """Section 3.4: a learned vector for each token, times √d_model."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(len(VOCABULARY), D_MODEL) * D_MODEL**-0.5)

    def forward(self, ids: Tensor) -> Tensor:  # (B, S) -> (B, S, D)
        return self.weight[ids] * math.sqrt(D_MODEL)


def positions(length: int) -> Tensor:
    """Section 3.5: waves of many lengths, sine and cosine in turn; attention by itself knows no order. (S, D)"""
    angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, D_MODEL, 2) / D_MODEL)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


# ----------------------------------------------------------------------------- 3.1, 3.3 encoder and decoder


class FeedForward(nn.Module):
    """Equation 2: max(0, x W1 + b1) W2 + b2, the same at each position."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(D_MODEL, D_FF)
        self.outer = nn.Linear(D_FF, D_MODEL)

    def forward(self, x: Tensor) -> Tensor:  # (B, S, D) -> (B, S, D)
        return self.outer(self.inner(x).relu())


class Connection(nn.Module):
    """Around every sub-layer: LayerNorm(x + Dropout(Sublayer(x))). The sum lets gradients reach the lowest layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(D_MODEL)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, output: Tensor) -> Tensor:  # what the sub-layer made of x
        return self.layer_norm(x + self.dropout(output))


class EncoderLayer(nn.Module):
    """Every source position looks at all others, then works on what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention()
        self.feed_forward = FeedForward()
        self.self_attention_connection = Connection()
        self.feed_forward_connection = Connection()

    def forward(self, x: Tensor, source_mask: Tensor) -> Tensor:  # (B, S, D) -> (B, S, D)
        x = self.self_attention_connection(x, self.self_attention(x, x, source_mask))
        return self.feed_forward_connection(x, self.feed_forward(x))


class DecoderLayer(nn.Module):
    """Every target position looks at those before it, then at the source (the memory), then works on what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention()
        self.cross_attention = MultiHeadAttention()
        self.feed_forward = FeedForward()
        self.self_attention_connection = Connection()
        self.cross_attention_connection = Connection()
        self.feed_forward_connection = Connection()

    def forward(self, x: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        x = self.self_attention_connection(x, self.self_attention(x, x, causal_mask(x.size(1))))
        x = self.cross_attention_connection(x, self.cross_attention(x, memory, source_mask))
        return self.feed_forward_connection(x, self.feed_forward(x))


class Transformer(nn.Module):
    """Figure 1. Both sides and the softmax share one table of embeddings (3.4)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = ScaledEmbedding()
        self.dropout = nn.Dropout(DROPOUT)
        self.encoder = nn.ModuleList(EncoderLayer() for _ in range(LAYERS))
        self.decoder = nn.ModuleList(DecoderLayer() for _ in range(LAYERS))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def embed(self, ids: Tensor) -> Tensor:
        """What the lowest layer sees: token plus position, (B, S, D)."""
        return self.dropout(self.embedding(ids) + positions(ids.size(1)))

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        """Source ids (B, S) to memory (B, S, D)."""
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, source_mask)
        return x

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Logits (B, T, V) of the token after each position of target (B, T)."""
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, source_mask)
        return x @ self.embedding.weight.T

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, V); the right translation so far is given (teacher forcing)."""
        source_mask = (source != PAD)[:, None, None, :]  # (B, 1, 1, S): nobody looks at padding
        return self.decode(target, self.encode(source, source_mask), source_mask)


# ----------------------------------------------------------------------------------------------- 5 training


def batch(words: list[str]) -> tuple[Tensor, ...]:
    """Source with </s>, target after <s>, target with </s>: (B, S), (B, T), (B, T). Targets are backwards."""
    forwards = [[VOCABULARY.index(letter) for letter in word] for word in words]
    rows = [([*ids, EOS], [BOS, *reversed(ids)], [*reversed(ids), EOS]) for ids in forwards]
    sides = [[torch.tensor(ids) for ids in side] for side in zip(*rows, strict=True)]
    return tuple(pad_sequence(side, batch_first=True, padding_value=PAD) for side in sides)


def random_word() -> str:
    """Up to twelve letters, so that nothing can be learned by heart."""
    return "".join(random.choices(string.ascii_lowercase, k=random.randint(1, 12)))


def paper_rate(step: int) -> float:
    """Equation 3: the learning rate rises in a straight line, then falls with the root of the step."""
    return D_MODEL**-0.5 * min(step**-0.5, step * WARMUP**-1.5)


def train(model: Transformer) -> None:
    """Adam with the paper's schedule (5.3) on a loss with label smoothing (5.4)."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: paper_rate(step + 1))
    loss_of = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=SMOOTHING)
    for step in range(1, STEPS + 1):
        source, target_input, target_output = batch([random_word() for _ in range(BATCH)])
        loss = loss_of(model(source, target_input).flatten(0, 1), target_output.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()
        if step % 100 == 0:
            print(f"step {step:5}  loss {loss.item():.3f}  attention -> {backwards(model, 'attention')}")


@torch.no_grad()
def backwards(model: Transformer, word: str) -> str:
    """Greedy decoding: always append the most probable letter, until </s>."""
    source = batch([word])[0]
    mask = torch.ones(1, 1, 1, source.size(1), dtype=torch.bool)
    memory, target = model.encode(source, mask), torch.tensor([[BOS]])
    while target[0, -1] != EOS and target.size(1) < 30:
        next_id = model.decode(target, memory, mask)[:, -1].argmax(dim=-1)
        target = torch.cat((target, next_id[:, None]), dim=1)
    return "".join(VOCABULARY[i] for i in target[0] if i > EOS)


@torch.no_grad()
def show_attention(model: Transformer, word: str) -> None:
    """Print where each letter that is written looks in the source: the mean over the heads of the last layer."""
    source, target_input, target_output = batch([word])
    model(source, target_input)
    weights = model.decoder[-1].cross_attention.weights[0].mean(dim=0)  # (T, S)
    print("\n   ", *(VOCABULARY[i][0] for i in source[0]))
    for letter, row in zip(target_output[0], weights, strict=True):
        print(f"{VOCABULARY[letter]:>4}", *(" ░▒▓█"[min(4, int(weight * 5))] for weight in row))


if __name__ == "__main__":
    torch.manual_seed(1)
    random.seed(1)
    transformer = Transformer()
    train(transformer)
    show_attention(transformer.eval(), "attention")
