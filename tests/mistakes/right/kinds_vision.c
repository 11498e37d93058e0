// SPDX-License-Identifier: Apache-2.0
// Images and boxes, of the kinds that torchvision has.

#include "kinds.h"

static float least(float a, float b) { return a < b ? a : b; }

// x[h, w] between pixels; 0 outside of the image.
static float bilinear(const float *x, int64_t h, int64_t w, float y, float at) {
  const float y0 = floorf(y), x0 = floorf(at);
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    const float row = y0 + (float)(k / 2), column = x0 + (float)(k % 2);
    const float weight = (1 - fabsf(y - row)) * (1 - fabsf(at - column));
    if (row >= 0 && row < (float)h && column >= 0 && column < (float)w)
      sum += weight * x[(int64_t)row * w + (int64_t)column];
  }
  return sum;
}

KERNEL(box_iou) {  // a[N, 4], b[M, 4]: a corner, and a size of any sign
  for (int64_t i = 0; i < DIM(0) * DIM(1); ++i) {
    const float *a = IN(0) + i / DIM(1) * 4, *b = IN(1) + i % DIM(1) * 4;
    float both = 1, all_a = 1, all_b = 1;
    for (int k = 0; k < 2; ++k) {
      const float size_a = fabsf(a[2 + k]), size_b = fabsf(b[2 + k]);
      const float end = least(a[k] + size_a, b[k] + size_b);
      const float begin = fmaxf(a[k], b[k]);
      both *= fmaxf(end - begin, 0);
      all_a *= size_a;
      all_b *= size_b;
    }
    const float joined = all_a + all_b - both;
    OUT(0)[i] = joined > 0 ? both / joined : 0;
  }
  return OG_OK;
}

KERNEL(resize_corners) {  // x[*N, H, W]; height, width
  const int64_t h = INT(0), w = INT(1), area = DIM(1) * DIM(2);
  for (int64_t i = 0; i < DIM(0) * h * w; ++i) {
    const float y =
        h > 1 ? (float)(i / w % h) * (float)(DIM(1) - 1) / (float)(h - 1) : 0;
    const float at =
        w > 1 ? (float)(i % w) * (float)(DIM(2) - 1) / (float)(w - 1) : 0;
    OUT(0)[i] = bilinear(IN(0) + i / (h * w) * area, DIM(1), DIM(2), y, at);
  }
  return OG_OK;
}

KERNEL(normalize_pixels) {  // x[*N, H, W, 3]; mean, deviation
  const uint8_t *x = og_data(call->in[0]);
  for (int64_t i = 0; i < DIM(0) * DIM(1) * DIM(2) * 3; ++i) OUT(0)
  [i] = ((float)x[i] / 255 - (float)call->attr[0].floats[i % 3]) /
        (float)call->attr[1].floats[i % 3];
  return OG_OK;
}

KERNEL(max_pool) {  // x[*N, H, W]; size: the largest, and its place
  const int64_t k = INT(0), h = DIM(1) / k, w = DIM(2) / k;
  for (int64_t i = 0; i < DIM(0) * h * w; ++i) {
    const int64_t image = i / (h * w) * DIM(1) * DIM(2);
    const int64_t begin = i / w % h * k * DIM(2) + i % w * k;
    int64_t best = begin;
    for (int64_t j = 0; j < k * k; ++j) {
      const int64_t at = begin + j / k * DIM(2) + j % k;
      if (IN(0)[image + at] > IN(0)[image + best]) best = at;
    }
    OUT(0)[i] = IN(0)[image + best];
    og_i64_mut(call->out[1])[i] = best;
  }
  return OG_OK;
}

KERNEL(sample_grid) {  // x[B, H, W], grid[B, G, 2]: places in pixels
  for (int64_t i = 0; i < DIM(0) * DIM(3); ++i) OUT(0)
  [i] = bilinear(IN(0) + i / DIM(3) * DIM(1) * DIM(2), DIM(1), DIM(2),
                 fmaxf(fminf(IN(1)[2 * i], 1e6f), -1e6f),
                 fmaxf(fminf(IN(1)[2 * i + 1], 1e6f), -1e6f));
  return OG_OK;
}

KERNEL(roi_means) {  // x[B, H, W], image[K], corner[K, 2]; size
  const int64_t size = INT(0), *image = og_i64(call->in[1]);
  REQUIRE_RANGE(1, "image", 0, DIM(0));
  for (int64_t i = 0; i < DIM(3) * size * size; ++i) {
    const int64_t k = i / (size * size);
    const float *x = IN(0) + image[k] * DIM(1) * DIM(2);
    const float y = fmaxf(fminf(IN(2)[2 * k], 1e6f), -1e6f);
    const float at = fmaxf(fminf(IN(2)[2 * k + 1], 1e6f), -1e6f);
    float sum = 0;
    for (int j = 0; j < 4; ++j)
      sum +=
          bilinear(x, DIM(1), DIM(2),
                   y + (float)(i / size % size) + 0.25f + 0.5f * (float)(j / 2),
                   at + (float)(i % size) + 0.25f + 0.5f * (float)(j % 2));
    OUT(0)[i] = sum / 4;
  }
  return OG_OK;
}

KERNEL(shuffle_channels) {  // x[N, C, S]; groups
  const int64_t groups = INT(0), per = DIM(1) / groups;
  for (int64_t i = 0; i < DIM(0) * DIM(1) * DIM(2); ++i) {
    const int64_t c = i / DIM(2) % DIM(1);
    const int64_t from = c % groups * per + c / groups;
    OUT(0)
    [i] = IN(0)[(i / DIM(2) / DIM(1) * DIM(1) + from) * DIM(2) + i % DIM(2)];
  }
  return OG_OK;
}

KERNEL(focal_loss) {  // x[*N], target[*N]; alpha, gamma
  for (int64_t i = 0; i < DIM(0); ++i) {
    const double p = 1 / (1 + exp(-(double)IN(0)[i]));
    const double t = fmin(fmax((double)IN(1)[i], 0), 1);
    const double right = p * t + (1 - p) * (1 - t);
    const double weight = call->attr[0].f * t + (1 - call->attr[0].f) * (1 - t);
    const double x = (double)IN(0)[i];
    const double loss = fmax(x, 0) - x * t + log1p(exp(-fabs(x)));
    OUT(0)[i] = (float)(weight * pow(1 - right, call->attr[1].f) * loss);
  }
  return OG_OK;
}

MODULE(
    kinds_vision,
    {.schema = "box_iou(Tensor a, Tensor b) -> Tensor",
     .shape = "a[N, 4], b[M, 4] -> [N, M]",
     ONE("a: f32, b: a -> a", box_iou)},
    {.schema = "resize_corners(Tensor x, int height, int width) -> Tensor",
     .shape = "x[*N, H, W] -> [*N, height, width]",
     .where = "height > 0, width > 0, H > 0, W > 0",
     ONE("x: f32 -> x", resize_corners)},
    {.schema = "normalize_pixels(Tensor x, float[3] mean=[0.5, 0.5, 0.5], "
               "float[3] deviation=[0.2, 0.3, 0.4]) -> Tensor",
     .shape = "x[*N, H, W, 3] -> [*N, H, W, 3]",
     ONE("x: u8 -> f32", normalize_pixels)},
    {.schema = "max_pool(Tensor x, int size) -> (Tensor, Tensor)",
     .shape = "x[*N, H, W] -> [*N, H // size, W // size], "
              "[*N, H // size, W // size]",
     .where = "size > 0",
     ONE("x: f32 -> x, i64", max_pool)},
    {.schema = "sample_grid(Tensor x, Tensor grid) -> Tensor",
     .shape = "x[B, H, W], grid[B, G, 2] -> [B, G]",
     ONE("x: f32, grid: x -> x", sample_grid)},
    {.schema = "roi_means(Tensor x, Tensor image, Tensor corner, int size) -> "
               "Tensor",
     .shape = "x[B, H, W], image[K], corner[K, 2] -> [K, size, size]",
     .where = "size > 0, image in [0, B)",
     ONE("x: f32, image: i64, corner: x -> x", roi_means)},
    {.schema = "shuffle_channels(Tensor x, int groups) -> Tensor",
     .shape = "x[N, C, S] -> [N, C, S]",
     .where = "groups > 0, C % groups == 0",
     ONE("x: f32 -> x", shuffle_channels)},
    {.schema = "focal_loss(Tensor x, Tensor target, float alpha=0.25, float "
               "gamma=2.0) -> Tensor",
     .shape = "x[*N], target[*N] -> [*N]",
     .where = "alpha >= 0 and alpha <= 1, gamma >= 0 and gamma <= 5",
     ONE("x: f32, target: x -> x", focal_loss)})
