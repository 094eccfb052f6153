"""Small nets of many kinds: what each needs to be exported, run and trained.

Every net returns a matrix, one row a sample and one column a class, so that each loss fits each net.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Net:
    """A net, its inputs, and the classes whose modules the exporter is to write as functions.

    ``random`` says that two runs differ, so that gradients cannot be compared.
    """

    build: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    classes: tuple[type[nn.Module], ...] = (nn.Linear,)
    random: bool = False


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.act = nn.Tanh()
        self.fc2 = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class OneLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc1(x)


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.fc = nn.Linear(8, 5)

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(torch.relu(self.embedding(ids)).mean(1))


class Attention(nn.Module):
    """Self-attention with heads; ``causal`` masks with a buffer, as GPT-2 does."""

    def __init__(self, width: int, heads: int, length: int = 0) -> None:
        super().__init__()
        self.heads, self.causal = heads, bool(length)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        mask = torch.full((max(length, 1), max(length, 1)), -1e4).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in (q, k, v))
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        if self.causal:
            scores = scores + self.mask
        mixed = torch.softmax(scores, -1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width: int, approximate: str = "none") -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.act = nn.GELU(approximate=approximate)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))


class PreNormBlock(nn.Module):
    """LayerNorm first, as in GPT-2 and ViT."""

    def __init__(self, width: int, heads: int, length: int = 0, approximate: str = "none") -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, length)
        self.mlp = FeedForward(width, approximate)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PostNormBlock(nn.Module):
    """LayerNorm last, separate projections, as in BERT."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = FeedForward(width)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / x.shape[-1] ** 0.5
        x = self.norm1(x + torch.softmax(scores, -1) @ self.value(x))
        return self.norm2(x + self.mlp(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = PreNormBlock(8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(x).mean(1))


class GPT2(nn.Module):
    """Two blocks, causal, tanh GELU, and the output tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(13, 8), nn.Embedding(6, 8)
        self.blocks = nn.Sequential(*(PreNormBlock(8, 2, 6, "tanh") for _ in range(2)))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 13, bias=False)
        self.head.weight = self.wte.weight
        self.register_buffer("positions", torch.arange(6))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(self.positions)
        return self.head(self.norm(self.blocks(x))).reshape(-1, 13)


class BERT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(13, 8), nn.Parameter(torch.randn(6, 8))
        self.norm = nn.LayerNorm(8)
        self.layers = nn.Sequential(*(PostNormBlock(8) for _ in range(2)))
        self.pooler = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        self.classifier = nn.Linear(8, 5)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.layers(self.norm(self.words(ids) + self.places))
        return self.classifier(self.pooler(hidden[:, 0]))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(2, 8, kernel_size=2, stride=2)
        self.places = nn.Parameter(torch.randn(1, 9, 8) * 0.1)
        self.block = PreNormBlock(8, 2)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.block(x)).mean(1))


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(4, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.conv1(image)))
        return self.fc(torch.relu(self.conv2(x)).flatten(1))


class BatchNormCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Linear(64, 5)

    def forward(self, image: Tensor) -> Tensor:
        return self.fc(torch.relu(self.norm(self.conv(image))).flatten(1))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)))


class Residual(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sigmoid(self.fc(x))


class TwoInstances(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Residual(), Residual()

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x))


class Nest(nn.Module):
    """A module in a module in a module, ``depth`` deep, with weights at every level."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = Nest(depth - 1) if depth > 1 else nn.Tanh()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.inner(x)) + x


class Dropping(nn.Module):
    def __init__(self, probability: float) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 32), nn.Linear(32, 5)
        self.drop = nn.Dropout(probability)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.drop(torch.relu(self.fc1(x))))


class Activations(nn.Module):
    """Some have a gradient in ONNX Runtime, some must be decomposed."""

    def __init__(self) -> None:
        super().__init__()
        kinds = (nn.ReLU, nn.Sigmoid, nn.LeakyReLU, nn.ELU, nn.Softplus, nn.SiLU, nn.Softsign, nn.Hardswish)
        self.acts = nn.ModuleList(kind() for kind in kinds)
        self.fcs = nn.ModuleList(nn.Linear(6, 6) for _ in kinds)

    def forward(self, x: Tensor) -> Tensor:
        for fc, act in zip(self.fcs, self.acts, strict=True):
            x = act(fc(x)) + x
        return torch.log_softmax(x, -1)


class Buffered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 5)
        self.register_buffer("scale", torch.linspace(0.5, 2.0, 5))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * self.scale


class Recurrent(nn.Module):
    """A recurrent net written out over its four steps; ONNX Runtime has no gradient for the operator RNN."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.keep = nn.Linear(4, 8), nn.Linear(8, 8)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(x.shape[0], 8)
        for step in range(4):
            state = torch.tanh(self.read(x[:, step]) + self.keep(state))
        return self.fc(state)


def rows(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(*shape)


def tokens(*shape: int, below: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(below, shape)


NETS = {
    "one linear": Net(OneLinear, rows(4, 8)),
    "mlp": Net(MLP, rows(4, 8)),
    "embedding": Net(Embedded, tokens(4, 3, below=11), (nn.Embedding, nn.Linear)),
    "activations": Net(Activations, rows(4, 6), (nn.Linear, nn.ELU, nn.SiLU)),
    "buffer": Net(Buffered, rows(4, 8), (Buffered,)),
    "tied weights": Net(Tied, rows(4, 8)),
    "two instances": Net(TwoInstances, rows(4, 8), (Residual,)),
    "nested 4": Net(lambda: Nest(4), rows(4, 6), (Nest,)),
    "dropout": Net(lambda: Dropping(0.0), rows(4, 8), (Dropping,)),
    "dropout, random": Net(lambda: Dropping(0.1), rows(16, 8), (Dropping,), random=True),
    "cnn": Net(CNN, rows(4, 2, 6, 6), (nn.Conv2d, nn.Linear)),
    "cnn, batch norm": Net(BatchNormCNN, rows(4, 2, 6, 6), (nn.Conv2d, nn.BatchNorm2d)),
    "recurrent": Net(Recurrent, rows(4, 4, 4)),
    "transformer": Net(Transformer, rows(4, 5, 8), (PreNormBlock, nn.Linear)),
    "gpt-2": Net(GPT2, tokens(2, 6, below=13), (PreNormBlock, nn.LayerNorm)),
    "bert": Net(BERT, tokens(4, 6, below=13), (PostNormBlock, FeedForward)),
    "vit": Net(ViT, rows(4, 2, 6, 6), (Attention, FeedForward)),
}

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "MSELoss": functional.mse_loss,
    "L1Loss": functional.l1_loss,
    "BCEWithLogitsLoss": functional.binary_cross_entropy_with_logits,
    "CrossEntropyLoss": functional.cross_entropy,
}


def target_for(loss: str, output: Tensor) -> Tensor:
    """Return something for the net to learn: probabilities, or classes."""
    if loss == "CrossEntropyLoss":
        return torch.arange(output.shape[0]) % output.shape[1]
    return torch.linspace(0.05, 0.95, output.numel()).reshape(output.shape)
