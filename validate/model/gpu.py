"""What of the GPU kernels' grids and splits depend on."""

# Multiprocessors of GB300 and GB200. vLLM 0.33.0 asks the device (torch.cuda.get_device_properties, tokenspeed_mla's
# get_num_sm); its experts' grids for TP16 and TP8 B9 to B64 fill 152 (moe/experts_runtime.py).
SMS = 152
