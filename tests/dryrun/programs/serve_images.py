"""A diffusers pipeline, made here, behind a server of OpenAI's interface for images. Prints what it has by its own objects."""
import json

import torch
import uvicorn
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from fastapi import FastAPI
from pydantic import BaseModel
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import CLIPTextConfig, CLIPTextModel, PreTrainedTokenizerFast

words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(1000)} | {"a": 1000}, unk_token="w3"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", bos_token="w1", eos_token="w2", unk_token="w3",
                                    model_max_length=77)
unet = UNet2DConditionModel(sample_size=8, block_out_channels=(128, 256, 512), layers_per_block=2, cross_attention_dim=256,
                            down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
                            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"), attention_head_dim=8)
vae = AutoencoderKL(block_out_channels=(64, 128, 256), down_block_types=("DownEncoderBlock2D",) * 3,
                    up_block_types=("UpDecoderBlock2D",) * 3, latent_channels=4, norm_num_groups=32, sample_size=32)
text = CLIPTextModel(CLIPTextConfig(vocab_size=1001, hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=8,
                                    bos_token_id=1, eos_token_id=2, pad_token_id=0))
scheduler = DDIMScheduler(steps_offset=1, clip_sample=False)
pipeline = StableDiffusionPipeline(vae=vae, text_encoder=text, tokenizer=tokenizer, unet=unet, scheduler=scheduler, safety_checker=None,
                                   feature_extractor=None, requires_safety_checker=False).to("cuda", torch.float16)
pipeline.set_progress_bar_config(disable=True)
application, passes, answered = FastAPI(), [], []
for outermost in text, unet, vae.decoder:
    outermost.register_forward_hook(lambda *_: passes.append(1))


class Question(BaseModel):
    prompt: str
    n: int = 1
    model: str = "stable-diffusion"


@application.get("/v1/models")
def list_models():
    return {"data": [{"id": "stable-diffusion"}]}


@application.post("/v1/images/generations")
def draw(question: Question):
    images = pipeline(question.prompt, num_inference_steps=3, num_images_per_prompt=question.n, output_type="np").images
    answered.append(1)
    return {"data": [{"size": list(image.shape)} for image in images]}


uvicorn.run(application, host="127.0.0.1", port=8742, log_level="warning")
print(json.dumps({"weights": sum(each.nbytes for part in (unet, vae, text) for each in part.parameters()), "passes": len(passes),
                  "answered": len(answered)}))
