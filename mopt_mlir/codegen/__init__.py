"""From planned convolutions to affine loop nests around vector microkernels."""
