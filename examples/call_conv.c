/* Calls a compiled convolution from C, and compares it with plain loops.
 *
 *   mopt-compile examples/conv.mlir -o libconv.so --header conv.h
 *   cc -I. examples/call_conv.c ./libconv.so -lm -o call_conv && ./call_conv
 *
 * conv.mlir is 64 channels of 56x56 pixels and 3x3 filters, channels last, the input padded to
 * 58x58.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "conv.h"

enum { PIXELS = 56, FILTER = 3, CHANNELS = 64, PADDED = PIXELS + FILTER - 1 };

static float input[PADDED][PADDED][CHANNELS];
static float weights[FILTER][FILTER][CHANNELS][CHANNELS];
static float output[PIXELS][PIXELS][CHANNELS];

static void fill(float *values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = (float)rand() / (float)RAND_MAX - 0.5f;
}

static double expected(int h, int w, int k) {
  double sum = 0.0;
  for (int r = 0; r < FILTER; ++r)
    for (int s = 0; s < FILTER; ++s)
      for (int c = 0; c < CHANNELS; ++c)
        sum += (double)input[h + r][w + s][c] * weights[r][s][c][k];
  return sum;
}

int main(void) {
  fill(&input[0][0][0], sizeof input / sizeof(float));
  fill(&weights[0][0][0][0], sizeof weights / sizeof(float));

  conv(&input[0][0][0], &weights[0][0][0][0], &output[0][0][0]);

  double worst = 0.0;
  for (int h = 0; h < PIXELS; h += 5)
    for (int w = 0; w < PIXELS; w += 5)
      for (int k = 0; k < CHANNELS; ++k)
        worst = fmax(worst, fabs(output[h][w][k] - expected(h, w, k)));
  printf("largest error: %.1e\n", worst);
  return worst < 1e-4 ? EXIT_SUCCESS : EXIT_FAILURE;
}
