"""An arm set: one TOML file from which the arms ``default``, ``default-again``, ``specialized`` and ``float32`` are made.

The first three differ in ``decode_backend`` alone, which the file therefore cannot name. ``default-again`` is the default
engine once more, its requests in another order and among other neighbours (``order.py``): what differs then is noise.
``float32`` is the default path of the stand-in without its dtype's rounding: what differs then is the default path's own error.
Where tokens are forced, it decodes those of the default arm and nothing else.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from validate import toml_files
from validate.equivalence.prompts import Prompts, practice, seeded
from validate.equivalence.scenes import SceneSet
from validate.records.arm import SPECIALIZED

Name = Literal["default", "default-again", "specialized", "float32"]
NAMES: tuple[Name, ...] = ("default", "default-again", "specialized", "float32")
BACKENDS: dict[Name, str] = {"default": "auto", "default-again": "auto", "specialized": SPECIALIZED, "float32": "auto"}
BACKEND = "decode_backend"
FORCING = ("dictated", "company", "forced")  # kinds of scenes that decode tokens which are given
PLANTED = "planted"  # of a fault of the stand-in (validate/faults/engine)
ARMS = "validate.equivalence.arms"
Dtype = Literal["bfloat16", "float16", "float32"]
DTYPES: dict[str, Dtype] = {
    "auto": "bfloat16",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float32",
    "float": "float32",
}
# The suite sets these itself: they say who records, not what is recorded.
OURS = ("model", "worker_extension_cls", "logits_processors")


class Launch(BaseModel):
    """How the engine is spread over machines: ``nodes`` of ``gpus_per_node`` GPUs. ``port`` is the first node's server's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: int = Field(default=1, ge=1)
    gpus_per_node: int = Field(default=1, ge=1)
    port: int = Field(default=8000, ge=1, le=65535)
    master_port: int = Field(default=29501, ge=1, le=65535)


class LongOutputs(BaseModel):
    """What ``validate/long_output`` asks of a set's scenes.

    ``outputs``: the scene of the long outputs; ``fresh`` and ``after``: those of canaries before and behind them.
    ``reproducible``: equal requests in equal batches are decoded bit for bit alike, whatever ran before. ``margin``: by how much
    the rate of any sign of degeneration may grow; ``length``: by which factor, less 1, the mean length may. ``ratio``: of the
    bytes of a window of text and of what zlib makes of it, above which it says too little. ``scripts``: those of the prompts,
    as Unicode names them; ``foreign``: the share of letters of others that is no alarm. ``zero`` and ``padding``: ids that
    stand for nothing. ``control``: those of control tokens, where they are known: a leak then has its place to the token.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    outputs: str
    fresh: str
    after: str
    reproducible: bool
    margin: float = Field(default=0.1, gt=0, lt=1)
    length: float = Field(default=0.1, gt=0, lt=1)
    ratio: float = Field(default=5.0, gt=1)
    scripts: tuple[str, ...] = ("LATIN",)
    foreign: float = Field(default=0.05, gt=0, lt=1)
    zero: int = Field(default=0, ge=0)
    padding: int = Field(ge=0)
    control: tuple[int, ...] = ()


class ArmSet(BaseModel):
    """What the arms have in common.

    ``engine``: arguments by vLLM's names; ``environment``: variables that are set before vLLM is imported. Prompts are
    ``practice`` tasks or, by default, drawn from the token ids ``prompt_ids``, the end excluded. ``top``: the best tokens of
    each position that are recorded, 0 for none. ``minimum_specialized``: the share of decode and verify steps of
    ``decode_only`` scenes that the specialized arm must run specialized. ``reproducible``: a request's numbers are the same to
    the bit in every batch of one size, whoever its neighbours are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str
    model: str
    layers: int = Field(ge=1)
    attn_res_block: int = Field(ge=1)
    stand_in: bool = False
    engine: dict[str, Any]
    environment: dict[str, str] = Field(default_factory=dict)
    launch: Launch | None = None
    prompts: Literal["ids", "practice"] = "ids"
    prompt_ids: tuple[int, int] = (0, 1)
    seed: int = 0
    top: int = Field(default=20, ge=0)
    minimum_specialized: float = Field(default=0.95, gt=0, le=1)
    reproducible: bool = False
    long: LongOutputs | None = None
    scenes: tuple[SceneSet, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _sound(self) -> "ArmSet":
        config = self.engine.get("additional_config", {})
        if not isinstance(config, dict) or BACKEND in config or PLANTED in config:
            raise ValueError(f"engine.additional_config: a table without {BACKEND} and {PLANTED}, which are what arms differ in")
        for name in self.engine:
            if "-" in name or name in OURS:
                raise ValueError(f"engine.{name}: " + ("write _ for -" if "-" in name else "the suite sets it itself"))
        for name in ("max_model_len", "max_num_batched_tokens", "max_num_seqs"):
            if not isinstance(self.engine.get(name), int):
                raise ValueError(f"engine.{name}: an integer is wanted, since scenes are made for it")
        if self.engine.get("dtype", "auto") not in DTYPES:
            raise ValueError(f"engine.dtype: one of {', '.join(DTYPES)} is wanted")
        low, high = self.prompt_ids
        if self.prompts == "ids" and "prompt_ids" not in self.model_fields_set:
            raise ValueError('prompt_ids: the token ids that prompts are drawn from are wanted, or prompts = "practice"')
        if not 0 <= low < high:
            raise ValueError("prompt_ids: two ids are wanted, the first below the second")
        names = [scene.name for scene in self.scenes]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"scenes: two are named {twice[0]}")
        for scene in self.scenes:
            for wanted in getattr(scene, "of", ()):
                if wanted not in names[: names.index(scene.name)]:
                    raise ValueError(f"scenes: {scene.name} forces the tokens of {wanted}, and no scene before it has that name")
            if _forces(scene) and self.engine.get("speculative_config"):
                raise ValueError(f"scenes: {scene.name}: vLLM forces no tokens with speculative decoding")
            if getattr(scene, "turns", 0) and not self.stand_in:
                raise ValueError(f"scenes: {scene.name}: turns are dictated to the stand-in alone")
            if getattr(scene, "strings", ()) and self.engine.get("skip_tokenizer_init"):
                raise ValueError(f"scenes: {scene.name}: stop strings need a tokenizer, and engine.skip_tokenizer_init is set")
        if self.long is not None:
            for field in ("outputs", "fresh", "after"):
                if (wanted := getattr(self.long, field)) not in names:
                    raise ValueError(f"long.{field}: there is no scene {wanted}")
        return self

    def arguments(self, name: Name, plant: str | None = None) -> dict[str, Any]:
        """The engine arguments of one arm, ``plant`` the fault that is planted in it."""
        config = {**self.engine.get("additional_config", {}), BACKEND: BACKENDS[name]} | ({PLANTED: plant} if plant else {})
        return {**self.of(name).engine, "additional_config": config}

    def of(self, name: Name) -> "ArmSet":
        """The set as one arm has it: ``float32`` has another dtype."""
        return self.model_copy(update={"engine": {**self.engine, "dtype": name}}) if name == "float32" else self

    @property
    def rounds_to(self) -> Dtype:
        """What both paths round to between stages. K3's checkpoint is bfloat16, which ``auto`` takes."""
        return DTYPES[self.engine.get("dtype", "auto")]

    def prompt_source(self) -> Prompts:
        """Where prompts come from."""
        return practice(self.seed) if self.prompts == "practice" else seeded(self.seed, self.prompt_ids)

    @property
    def forced(self) -> bool:
        """Whether any scene decodes tokens that are given."""
        return any(map(_forces, self.scenes))

    @property
    def dictated(self) -> bool:
        """Whether any scene has turns that are dictated."""
        return any(getattr(scene, "turns", 0) for scene in self.scenes)

    @property
    def defaults(self) -> tuple[Name, ...]:
        """The arms of the default path. Kimi K3's weights and kernels know no float32; the stand-in's do."""
        rounded = self.stand_in and self.rounds_to != "float32"
        return ("default", "default-again", "float32") if rounded else ("default", "default-again")


def _forces(scene: SceneSet) -> bool:
    return scene.kind in FORCING and getattr(scene, "prompt", None) is None


def names() -> list[str]:
    """The arm sets that come with the suite."""
    return toml_files.names(ARMS)


def load(name: str) -> ArmSet:
    """The arm set of that name, or in that ``.toml`` file. InputError if there is none or it is malformed.

    It may start from another one (``toml_files.load``), whose scenes it replaces by name.
    """
    return toml_files.load(ArmSet, name, ARMS, "arm set", "scenes")
