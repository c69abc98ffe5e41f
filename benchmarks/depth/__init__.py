"""What "deeper" can mean here, measured: features under the wide layer, more layers in the limit, inputs that move."""
