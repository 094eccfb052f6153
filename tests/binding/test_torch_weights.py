"""Torch tensors as weights, and what torch exports without any: a small GPT-2 under FakeTensorMode."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_inline
from onnx_inline import (
    BindingError,
    FileError,
    UnboundInitializersError,
    bind_initializers,
    unbound_initializers,
)
from tests.binding.test_binding import lacking, values

torch = pytest.importorskip("torch")
fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")
nn = torch.nn

VOCABULARY, WIDTH, HEADS, LENGTH = 50, 16, 2, 8


class Attention(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        causal = torch.tril(torch.ones(LENGTH, LENGTH)).bool()
        self.register_buffer("causal", causal, persistent=False)

    def forward(self, x: Any) -> Any:
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).split(WIDTH, -1))
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        weights = scores.masked_fill(~self.causal, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(-2))


class Block(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT2(nn.Module):  # type: ignore[misc, name-defined]
    """Two blocks with a non-persistent mask each, and a head tied to the token embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.norm = nn.Sequential(Block(), Block()), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Any) -> Any:
        positions = torch.arange(LENGTH)
        return self.head(self.norm(self.blocks(self.wte(tokens) + self.wpe(positions))))


@pytest.fixture(scope="module")
def real() -> Any:
    torch.manual_seed(0)
    return GPT2().eval()


def exported_without_weights() -> Any:
    with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokens = torch.zeros(1, LENGTH, dtype=torch.int64)
        return torch.onnx.export(GPT2().eval(), (tokens,), dynamo=True, optimize=False, verbose=False)


def assert_equals_torch(path: Path, real: Any) -> None:
    ort = pytest.importorskip("onnxruntime")
    tokens = torch.arange(LENGTH)[None] * 5
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {session.get_inputs()[0].name: tokens.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(logits, real(tokens).numpy(), rtol=1e-4, atol=1e-5)


def test_every_weight_of_the_fake_export_is_listed(real: Any) -> None:
    missing = unbound_initializers(exported_without_weights().model)
    expected = {**real.state_dict(), **dict(real.named_buffers())}
    del expected["wte.weight"]
    assert {weight.name: weight.shape for weight in missing} == {
        name: tuple(tensor.shape) for name, tensor in expected.items()
    }
    assert {weight.why for weight in missing} == {"it is a FakeTensor, which has no data"}


def test_inlined_bound_and_saved_it_computes_what_torch_computes(real: Any, tmp_path: Path) -> None:
    model = onnx_inline.inline_functions(exported_without_weights().model)
    bind_initializers(model, real.state_dict(), dict(real.named_buffers()))
    assert unbound_initializers(model) == ()
    onnx_inline.save(model, tmp_path / "gpt2.onnx")
    assert_equals_torch(tmp_path / "gpt2.onnx", real)


def test_the_state_dict_alone_lacks_the_buffer_and_the_error_says_so(real: Any) -> None:
    model = exported_without_weights().model
    with pytest.raises(BindingError) as caught:
        bind_initializers(model, real.state_dict())
    lacking = [weight.name for weight in caught.value.unbound]
    assert lacking == ["blocks.0.attention.causal", "blocks.1.attention.causal"]
    assert (caught.value.unused, caught.value.mismatched) == ((), ())
    assert len(unbound_initializers(model)) == len(model.graph.initializers)


def test_saving_it_unbound_is_refused_with_the_names(tmp_path: Path) -> None:
    with pytest.raises(UnboundInitializersError, match=r"blocks\.0\.norm1\.weight .*onnx-inline bind"):
        onnx_inline.save(exported_without_weights().model, tmp_path / "gpt2.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["proto", "ir"])
def test_a_file_saved_without_initializers_is_completed(real: Any, form: str, tmp_path: Path) -> None:
    exported_without_weights().save(tmp_path / "weightless.onnx", include_initializers=False)
    proto = onnx.load(tmp_path / "weightless.onnx")
    model = proto if form == "proto" else ir.from_proto(proto)
    bound = bind_initializers(model, real.state_dict(), dict(real.named_buffers()))
    onnx.save(bound if form == "proto" else ir.to_proto(bound), tmp_path / "gpt2.onnx")
    assert_equals_torch(tmp_path / "gpt2.onnx", real)


def test_a_tensor_is_wrapped_not_copied() -> None:
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    model = bind_initializers(ir.from_proto(lacking(1, [2])), {"w": weight})
    with torch.no_grad():
        weight.mul_(10)
    assert values(model)["w"].tolist() == [10, 20]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "bool", "uint16"])
@pytest.mark.parametrize("form", ["proto", "ir"])
def test_types_keep_their_bits_whatever_the_strides(dtype: str, form: str) -> None:
    tensor = torch.tensor([[1, 0, 1], [0, 1, 1]]).to(getattr(torch, dtype)).t()
    type_ = ir.tensor_adapters.from_torch_dtype(tensor.dtype)
    model = lacking(type_, [3, 2])
    bound = bind_initializers(model if form == "proto" else ir.from_proto(model), {"w": tensor})
    assert values(bound)["w"].tolist() == [[1, 0], [0, 1], [1, 1]]


def test_four_bit_weights_come_packed_in_bytes() -> None:
    packed = torch.tensor([[0x21], [0x43]], dtype=torch.uint8)
    bound = bind_initializers(lacking(ir.DataType.INT4, [2, 2]), {"w": packed})
    assert values(bound)["w"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: torch.empty(2, device="meta"), "on the meta device"),
        (lambda: torch.tensor([1.0, 0.0]).to_sparse(), "torch.sparse_coo torch tensor"),
        (lambda: torch.zeros(2, dtype=torch.complex32), "no element type for torch.complex32"),
        (lambda: torch.zeros(2, dtype=torch.float64), "given DOUBLE"),
    ],
)
def test_a_tensor_that_onnx_cannot_hold_is_a_mismatch(make: Any, reason: str) -> None:
    with pytest.raises(BindingError, match=reason):
        bind_initializers(lacking(1, [2]), {"w": make()})


def test_pt_files_are_loaded_with_weights_only(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    for new_format in (True, False):
        torch.save({"w": torch.tensor([1.0, 2.0])}, path, _use_new_zipfile_serialization=new_format)
        assert values(bind_initializers(lacking(1, [2]), path))["w"].tolist() == [1, 2]
    torch.save({"w": Path("anything but a tensor")}, path)
    with pytest.raises(FileError, match=r"w\.pt"):
        bind_initializers(lacking(1, [2]), path)
    torch.save(torch.zeros(2), path)
    with pytest.raises(FileError, match="it holds a Tensor, not names and tensors"):
        bind_initializers(lacking(1, [2]), path)


def test_the_code_of_the_page_on_binding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "bind.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code, names := {"__name__": "page"})
    assert "['linear.weight', 'linear.bias', 'mask']" in capsys.readouterr().out
    ort = pytest.importorskip("onnxruntime")
    x = torch.rand(2, 4)
    (result,) = ort.InferenceSession(tmp_path / "net.onnx").run(None, {"x": x.numpy()})
    np.testing.assert_allclose(result, names["net"](x).detach().numpy(), rtol=1e-5)
