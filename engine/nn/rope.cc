// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/rope.h"

#include <cmath>

#include "quant/vector_ops.h"

namespace lowmem {
namespace {

// The float32 nearest to the power: pow in double is off by less than 2^-52 of
// it.
float PowFloat32(float base, float exponent) {
  return static_cast<float>(
      std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those
// between blended. The reference divides a number by a tensor as the tensor's
// reciprocal times the number, which rounds twice.
float ScaleLlama3(const RopeConfig& rope, float inv_freq) {
  constexpr float kTwoPi = 6.283185307179586;
  const auto context =
      static_cast<double>(rope.original_max_position_embeddings);
  const auto factor = static_cast<float>(rope.factor);
  const auto longest_kept = static_cast<float>(context / rope.high_freq_factor);
  const auto shortest_stretched =
      static_cast<float>(context / rope.low_freq_factor);
  const float wavelength = 1.0f / inv_freq * kTwoPi;
  if (wavelength > shortest_stretched) return inv_freq / factor;
  if (wavelength < longest_kept) return inv_freq;
  const float smooth =
      (1.0f / wavelength * static_cast<float>(context) -
       static_cast<float>(rope.low_freq_factor)) /
      static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1.0f - smooth) * inv_freq / factor + smooth * inv_freq;
}

}  // namespace

std::vector<float> InverseFrequencies(const RopeConfig& rope,
                                      uint32_t head_dim) {
  std::vector<float> inv_freq(head_dim / 2);
  const auto theta = static_cast<float>(rope.theta);
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const float exponent =
        static_cast<float>(2 * i) / static_cast<float>(head_dim);
    inv_freq[i] = 1.0f / PowFloat32(theta, exponent);
    switch (rope.scaling) {
      case RopeScaling::kNone:
        break;
      case RopeScaling::kLinear:
        inv_freq[i] /= static_cast<float>(rope.factor);
        break;
      case RopeScaling::kLlama3:
        inv_freq[i] = ScaleLlama3(rope, inv_freq[i]);
        break;
    }
    if (!rope.frequency_divisors.empty()) {
      inv_freq[i] /= rope.frequency_divisors[i];
    }
  }
  return inv_freq;
}

void ComputeRopeAngles(const PassContext& pass, const Chunk& chunk,
                       absl::Span<const float> inv_freq, float* cos,
                       float* sin) {
  const size_t num_pairs = inv_freq.size();
  pass.ForEachToken(chunk.num_tokens, [&](size_t t) {
    RopeAngles(static_cast<float>(chunk.first_pos + t), inv_freq.data(),
               num_pairs, 1.0f, cos + t * num_pairs, sin + t * num_pairs);
  });
}

void RotateHeads(const PassContext& pass, bool neighbour_pairs,
                 const float* cos, const float* sin, size_t num_tokens,
                 size_t num_heads, size_t head_dim, float* rows) {
  const size_t num_pairs = head_dim / 2;
  pass.ForEachToken(num_tokens, [&](size_t t) {
    const float* token_cos = cos + t * num_pairs;
    const float* token_sin = sin + t * num_pairs;
    for (size_t h = 0; h < num_heads; ++h) {
      float* head = rows + (t * num_heads + h) * head_dim;
      if (neighbour_pairs) {
        RopeNeighbours(token_cos, token_sin, num_pairs, head);
      } else {
        RopeHalves(token_cos, token_sin, num_pairs, head);
      }
    }
  });
}

}  // namespace lowmem
