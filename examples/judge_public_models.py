"""Public models of PyTorch with random weights and small sizes, judged end to end: the table of docs/judging_models.md.

pip install transformers timm torchvision x-transformers vit-pytorch rotary-embedding-torch
python examples/judge_public_models.py [words in the names of models]
"""

import importlib
import sys

import numpy as np
import torch

import refnp

rng = np.random.default_rng(0)
tokens, image, larger = rng.integers(0, 50, (2, 7)), rng.normal(size=(1, 3, 16, 16)), rng.normal(size=(1, 3, 32, 32))
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TEXT = SIZES | {"vocab_size": 50, "max_position_embeddings": 32, "use_cache": False}
GROUPED = TEXT | {"num_key_value_heads": 1}
PATCHES = SIZES | {"image_size": 16, "patch_size": 8}
TRANSFORMERS = {  # the class, the options of its configuration, what it is given
    "GPT2LMHeadModel": ({"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16, "vocab_size": 50}, "input_ids"),
    "BertModel": (TEXT, "input_ids"),
    "ViTModel": (PATCHES, "pixel_values"),
    "CLIPVisionModel": (PATCHES, "pixel_values"),
    "T5ForConditionalGeneration": (
        {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "vocab_size": 50, "use_cache": False},
        "input_ids decoder_input_ids",
    ),
    "LlamaForCausalLM": (GROUPED, "input_ids"),
    "Qwen2ForCausalLM": (GROUPED, "input_ids"),
    "Qwen3ForCausalLM": (GROUPED | {"head_dim": 8}, "input_ids"),
    "Gemma2ForCausalLM": (GROUPED | {"head_dim": 8}, "input_ids"),
    "MixtralForCausalLM": (GROUPED | {"num_local_experts": 4}, "input_ids"),
    "GPTNeoXForCausalLM": (TEXT, "input_ids"),
    "MambaForCausalLM": (
        {"hidden_size": 16, "num_hidden_layers": 1, "state_size": 4, "vocab_size": 50, "use_cache": False},
        "input_ids",
    ),
}
VISION = {"num_classes": 5}
VIT = VISION | {"image_size": 16, "patch_size": 8, "dim": 16, "depth": 2, "heads": 2, "mlp_dim": 32}
OTHERS = {  # the function that makes it, its options, what it is given
    "timm.create_model vit_tiny_patch16_224": (
        VISION | {"img_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
        image,
    ),
    **{
        f"timm.create_model test_{name}": (VISION, larger) for name in ("resnet", "convnext", "efficientnet", "byobnet")
    },
    **{
        f"torchvision.models.{name}": (VISION, larger)
        for name in ("squeezenet1_1", "resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5")
    },
    "vit_pytorch.ViT": (VIT, image),
    "vit_pytorch.SimpleViT": (VIT, image),
}
MEANT_OTHERWISE = (
    "Gemma2TextScaledWordEmbedding",
    "BatchNormAct2d",
)  # derived from layers of PyTorch, and no such layer


def made(name: str) -> tuple[torch.nn.Module, object]:
    """A model of this name, and what it is given."""
    torch.manual_seed(0)
    if name in TRANSFORMERS:
        options, given = TRANSFORMERS[name]
        package, inputs = importlib.import_module("transformers"), {"pixel_values": image}
        model = getattr(package, name)
        return model(model.config_class(**options)), {word: inputs.get(word, tokens) for word in given.split()}
    options, given = OTHERS[name]
    path, *words = name.split()
    module, _, function = path.rpartition(".")
    return getattr(importlib.import_module(module), function)(*words, **options), given


for name in (*TRANSFORMERS, *OTHERS):
    for dtype in (torch.float32, torch.float64) if all(word in name for word in sys.argv[1:]) else ():
        try:
            model, given = made(name)
        except Exception as error:  # not installed, of another release, or a wheel that does not load here
            print(f"{name:46} could not be loaded: {type(error).__name__}: {str(error).splitlines()[0]}")
            break
        model = model.to(dtype).eval()
        known = {path: None for path, part in model.named_modules() if type(part).__name__ in MEANT_OTHERWISE}
        try:
            report = refnp.judge_model(model, given, gradients=False, equations=known)
        except RuntimeError as error:  # PyTorch's own
            print(f"{name:46} {str(dtype)[6:]:8} {error}")
            continue
        worst = max((row["error_over_bound"] for row in report.rows if "end to end" in row["case"]), default=np.nan)
        print(f"{name:46} {str(dtype)[6:]:8} {report.verdict:10} {worst:8.2g}  {report.first or ''}", flush=True)
