"""generate_artifacts takes modules in functions and weights in other files, with every loss."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import pytest
import torch
from onnxruntime.training import artifacts, onnxblock
from torch.nn import functional

from onnx_inline.errors import (
    FileError,
    GradientBuilderError,
    ModelError,
    SourceChangedError,
    UnknownNameError,
)
from onnx_inline.integrations.ort_training import GradientWarning, generate_artifacts
from tests.training.artifact_helpers import PARAMETERS, Trainer, data, linear_model, save_external
from tests.training.exporters import by_script
from tests.training.nets import NETS

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
SGD = artifacts.OptimType.SGD
TORCH_LOSSES: dict[str, Loss] = {
    "MSELoss": functional.mse_loss,
    "L1Loss": functional.l1_loss,
    "BCEWithLogitsLoss": functional.binary_cross_entropy_with_logits,
    "CrossEntropyLoss": functional.cross_entropy,
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, beside one for the artifacts."""
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def by_torch(model: onnx.ModelProto, loss: str | Loss) -> tuple[float, dict[str, np.ndarray]]:
    """Compute the loss and its gradients of the linear model a second way."""
    weights = {
        tensor.name: torch.tensor(onnx.numpy_helper.to_array(tensor)).requires_grad_()
        for tensor in model.graph.initializer
    }
    first, first_bias, second, second_bias = (weights[name] for name in PARAMETERS)
    x, target = map(torch.tensor, data(str(loss)))
    function = TORCH_LOSSES[loss] if isinstance(loss, str) else loss
    value = function(torch.tanh(x @ first + first_bias) @ second + second_bias, target)
    value.backward()
    return value.item(), {name: tensor.grad.numpy() for name, tensor in weights.items()}


def generate(model: onnx.ModelProto | Path, loss: str = "MSELoss", **options: object) -> Trainer:
    defaults = {"requires_grad": list(PARAMETERS), "optimizer": SGD, "artifact_directory": "../out"}
    return Trainer(generate_artifacts(model, loss=artifacts.LossType[loss], **{**defaults, **options}))


@pytest.mark.parametrize("form", ["object", "file", "external data"])
@pytest.mark.parametrize("loss", TORCH_LOSSES)
def test_every_loss_trains_with_the_weights_anywhere(here: Path, loss: str, form: str) -> None:
    model = linear_model()
    onnx.save(model, "../model.onnx")
    save_external(model, here.parent / "outside.onnx")
    forms = {"object": model, "file": Path("../model.onnx"), "external data": here.parent / "outside.onnx"}

    trainer = generate(forms[form], loss)

    value, gradients = trainer.gradients(data(loss))
    expected, expected_gradients = by_torch(linear_model(), loss)
    assert value == pytest.approx(expected, rel=1e-5)
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in expected_gradients.items():
        np.testing.assert_allclose(gradients[name], gradient, rtol=1e-4, atol=1e-7)
    losses = trainer.losses(data(loss), 20)
    assert losses[-1] < losses[0]
    assert trainer.evaluated(data(loss)) < losses[-1]


@pytest.mark.parametrize("loss", ["MSELoss", "L1Loss"])
def test_the_same_fails_without_us(here: Path, loss: str) -> None:
    """The day that this test fails, ONNX Runtime can do it and the work-around can go."""
    flat = onnx.inliner.inline_local_functions(linear_model())
    save_external(flat, here / "outside.onnx")
    with pytest.raises(Exception, match=r"should be stored in .*temp\.onnx\.data"):
        artifacts.generate_artifacts(
            "outside.onnx", requires_grad=list(PARAMETERS), loss=artifacts.LossType[loss]
        )
    with pytest.raises(Exception, match="gradient builder has not been registered: Linear"):
        artifacts.generate_artifacts(
            linear_model(), requires_grad=list(PARAMETERS), loss=artifacts.LossType[loss]
        )


def test_nothing_but_the_artifacts_is_written_and_nothing_is_changed(here: Path) -> None:
    path = save_external(linear_model(), here / "outside.onnx")
    Path("temp.onnx").write_text("mine")
    Path("temp.onnx.data").write_text("mine too")
    before = contents(here)

    generate(path)

    assert contents(here) == before
    names = {"training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "checkpoint"}
    assert set(contents(here.parent / "out")) == names


def test_a_model_object_is_left_as_it_was(here: Path) -> None:
    model = linear_model()
    before = model.SerializeToString(deterministic=True)
    generate(model)
    assert model.SerializeToString(deterministic=True) == before


def test_the_artifacts_are_the_same_wherever_the_weights_were(here: Path) -> None:
    model = linear_model()
    generate(model, prefix="a_")
    generate(save_external(model, here / "outside.onnx"), prefix="b_")
    eval_a, eval_b = (Path(f"../out/{prefix}_eval_model.onnx") for prefix in "ab")
    shape = [[node.op_type for node in onnx.load(path).graph.node] for path in (eval_a, eval_b)]
    assert shape[0] == shape[1]
    assert Path("../out/a_checkpoint").read_bytes() == Path("../out/b_checkpoint").read_bytes()


def test_every_artifact_is_at_a_version_that_this_runtime_reads(here: Path) -> None:
    generate(linear_model(), nominal_checkpoint=True)
    for path in Path("../out").glob("*.onnx"):
        model = onnx.load(path)
        assert model.ir_version <= 10
        assert all(entry.version <= 21 for entry in model.opset_import if entry.domain == "")


def test_options_mean_what_they_mean_to_the_runtime(here: Path) -> None:
    files = generate_artifacts(
        linear_model(),
        requires_grad=["second_weight"],
        frozen_params=["first_weight"],
        loss=artifacts.LossType.MSELoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=b"../out",
        prefix="p_",
        ort_format=True,
        additional_output_names=["result"],
        nominal_checkpoint=True,
        loss_input_names=["result"],
        output_names=["result"],
    )
    assert {path.name for path in (files.training_model, files.checkpoint)} == {
        "p_training_model.onnx",
        "p_checkpoint",
    }
    assert files.nominal_checkpoint is not None and files.nominal_checkpoint.exists()
    assert (here.parent / "out" / "p_training_model.ort").exists()
    assert [value.name for value in onnx.load(files.eval_model).graph.output][1:] == ["result"]
    trainer = Trainer(files)
    _, result = trainer.module.train()(*data())
    assert result.shape == (2, 24)
    assert {name: one.requires_grad for name, one in trainer.state.parameters} == {
        "second_weight": True,
        "first_weight": False,
    }


class Halved(onnxblock.Block):
    """A custom loss of several blocks, one of which makes an initializer of its own."""

    def __init__(self) -> None:
        super().__init__()
        blocks, loss = onnxblock.blocks, onnxblock.loss
        self.half, self.mul, self.add = blocks.Constant(0.5), blocks.Mul(), blocks.Add()
        self.mse, self.l1 = loss.MSELoss(), loss.L1Loss()

    def build(self, name: str) -> str:
        halved = self.mul(name, self.half())
        return self.add(self.mse(name), self.l1(halved))


def test_a_custom_loss_of_several_blocks_trains(here: Path) -> None:
    path = save_external(linear_model(), here / "outside.onnx")
    trainer = Trainer(
        generate_artifacts(path, list(PARAMETERS), loss=Halved(), optimizer=SGD, artifact_directory="../out")
    )
    loss, gradients = trainer.gradients(data())

    def halved(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(output, target) + functional.l1_loss(output / 2, target)

    expected, expected_gradients = by_torch(linear_model(), halved)
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(gradients["first_weight"], expected_gradients["first_weight"], 1e-4, 1e-7)
    losses = trainer.losses(data(), 20)
    assert losses[-1] < losses[0]


class Failing(onnxblock.Block):
    def build(self, name: str) -> str:
        onnxblock.blocks.InputLike(name)("target")
        raise KeyError("a block's own mistake")


def state_of_the_runtime() -> list[object]:
    block, utils = onnxblock.blocks.Block, onnxblock.onnxblock._training_graph_utils
    return [
        *(vars(block)[name] for name in ("__init__", "__call__", "infer_shapes_on_base", "__del__")),
        utils._disable_training_mode,
        onnxblock.save_checkpoint,
        onnxblock.empty_base,
    ]


def test_a_failure_leaves_no_file_and_the_runtime_as_it_was(here: Path) -> None:
    before = state_of_the_runtime()
    Path("../out/checkpoint").write_text("from before")
    with pytest.raises(KeyError, match="a block's own mistake"):
        generate_artifacts(linear_model(), list(PARAMETERS), loss=Failing(), artifact_directory="../out")
    assert state_of_the_runtime() == before
    assert contents(here.parent / "out") == {"checkpoint": b"from before"}
    assert contents(here) == {}
    generate(linear_model())
    assert state_of_the_runtime() == before


def test_several_threads_take_turns(here: Path) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            generate(linear_model(), prefix=f"{number}_")
        except BaseException as error:
            failures.append(error)

    before = state_of_the_runtime()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert state_of_the_runtime() == before
    assert len(contents(here.parent / "out")) == 16


class Elsewhere(onnxblock.Block):
    """A loss that looks at what blocks do in another thread, and then fails."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def build(self, name: str) -> str:
        def look() -> None:
            self.seen.append(onnxblock.blocks.Abs().temp_onnx_file_path)

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        self.seen.append(onnxblock.blocks.Abs().temp_onnx_file_path)
        return str(onnxblock.blocks.ReduceMean(keepdims=False)(name))


def test_blocks_in_other_threads_are_the_runtime_s_own(here: Path) -> None:
    loss = Elsewhere()
    generate_artifacts(linear_model(), list(PARAMETERS), loss=loss, artifact_directory="../out")
    theirs, ours = loss.seen
    assert theirs == str(here / "temp.onnx")
    assert ".onnx_inline-" in ours


@pytest.mark.parametrize("name", ["cnn, batch norm", "dropout, random"])
def test_evaluation_is_torch_s_evaluation(here: Path, name: str) -> None:
    torch.manual_seed(0)
    net, x = NETS[name].build(), NETS[name].inputs()
    by_script(here / "net.onnx", copy.deepcopy(net), x, NETS[name], True)
    stored = {
        tensor.name: torch.tensor(onnx.numpy_helper.to_array(tensor))
        for tensor in onnx.load("net.onnx").graph.initializer
    }
    trainer = generate(here / "net.onnx", requires_grad=[name for name, _ in net.named_parameters()])
    net.load_state_dict(stored, strict=False)
    target = torch.rand_like(net.eval()(x))
    expected = functional.mse_loss(net(x), target).item()
    assert trainer.evaluated((x.numpy(), target.numpy())) == pytest.approx(expected, rel=1e-5)


class Writing(onnxblock.Block):
    """A loss that does something to a file, or to the model."""

    def __init__(self, work: Callable[[onnx.ModelProto], object]) -> None:
        super().__init__()
        self.work = work

    def build(self, name: str) -> str:
        self.work(self.base)
        return str(onnxblock.blocks.ReduceMean(keepdims=False)(name))


def test_weights_that_change_meanwhile_are_noticed(here: Path) -> None:
    path = save_external(linear_model(), here / "outside.onnx")
    loss = Writing(lambda _: Path("outside.onnx.data").write_bytes(bytes(5000)))
    with pytest.raises(SourceChangedError, match=r"outside\.onnx\.data"):
        generate_artifacts(path, list(PARAMETERS), loss=loss, artifact_directory="../out")
    assert contents(here.parent / "out") == {}


def test_what_a_block_does_wrong_is_found_when_it_is_built(here: Path) -> None:
    nonsense = onnx.helper.make_node("Add", ["nothing", "nothing"], ["z"], name="nonsense")
    loss = Writing(lambda model: model.graph.node.append(nonsense))
    with pytest.raises(onnx.checker.ValidationError, match=r"(?s)'nothing'.*nonsense"):
        generate_artifacts(linear_model(), list(PARAMETERS), loss=loss, artifact_directory="../out")


WITHOUT_GRADIENT = """
<ir_version: 8, opset_import: ["" : 17, "models" : 1]>
net (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}>
{ p = Mul (x, w)  y = models.Turn (p) }
<domain: "models", opset_import: ["" : 17]>
Turn (x) => (y) { y = Atan (x) }
"""


def test_what_has_no_gradient_is_named_with_a_cure(here: Path) -> None:
    model = onnx.parser.parse_model(WITHOUT_GRADIENT)
    with pytest.raises(
        GradientBuilderError, match=r"Atan[^\n]*Turn(?s:.*)cure: (?s:.*)the builder says: "
    ) as caught:
        generate(model, requires_grad=["w"])
    assert len(caught.value.findings) == 1
    assert contents(here.parent / "out") == {}


def test_a_gradient_that_differs_from_the_model_is_warned_of(here: Path) -> None:
    model = onnx.parser.parse_model(WITHOUT_GRADIENT.replace("Turn", "Tanh").replace("Atan (x)", "Sin (x)"))
    with pytest.warns(GradientWarning, match="models::Tanh"):
        generate(model, requires_grad=["w"], keep=["models::Tanh"])


def test_an_optimizer_without_anything_to_train_is_refused(here: Path) -> None:
    with pytest.raises(ValueError, match="name initializers in requires_grad"):
        generate(linear_model(), requires_grad=None)


def test_a_name_that_is_no_initializer_is_refused_with_a_proposal(here: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no initializer 'first_weigth'.*did you mean first_weight"):
        generate(linear_model(), requires_grad=["first_weigth"])


def test_a_missing_folder_or_file_is_one_clear_error(here: Path) -> None:
    with pytest.raises(FileError, match="nowhere"):
        generate(linear_model(), artifact_directory="nowhere")
    with pytest.raises(FileError, match=r"gone\.onnx"):
        generate(Path("gone.onnx"))


def test_an_object_whose_data_are_elsewhere_needs_its_path(here: Path) -> None:
    save_external(linear_model(), here / "outside.onnx")
    model = onnx.load("outside.onnx", load_external_data=False)
    with pytest.raises(ModelError, match=r"'first_weight' are in another file; pass the path"):
        generate(model)


def test_constants_that_no_model_file_can_hold_are_refused_before_they_are_read(here: Path) -> None:
    """The data file is a hole of 2.2 GB, which takes no room."""
    with Path("outside.onnx.data").open("wb") as stream:
        stream.truncate(2_200_000_000)
    model = linear_model()
    huge = onnx.TensorProto(name="table", data_type=onnx.TensorProto.FLOAT, dims=[550_000, 1000])
    huge.data_location = onnx.TensorProto.EXTERNAL
    huge.external_data.add(key="location", value="outside.onnx.data")
    model.graph.initializer.append(huge)
    Path("outside.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="'table' and the like in requires_grad or frozen_params"):
        generate(here / "outside.onnx")
    assert contents(here.parent / "out") == {}


def test_initializers_that_are_inputs_too_are_parameters_once(here: Path) -> None:
    model = linear_model()
    model.graph.input.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in model.graph.initializer
    )
    trainer = generate(model)
    assert trainer.gradients(data())[0] == pytest.approx(by_torch(linear_model(), "MSELoss")[0], rel=1e-5)
