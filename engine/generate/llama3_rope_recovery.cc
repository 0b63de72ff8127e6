// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/llama3_rope_recovery.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lowmem {
namespace {

constexpr double kTwoPi = 6.283185307179586;

// One divisor in the arithmetic of T. `reciprocals` is torch's way: a number
// divided by a tensor is that number times the tensor's reciprocal.
template <typename T>
float Divisor(const Llama3Scaling& scaling, T inv_freq, bool reciprocals) {
  const T factor = static_cast<T>(scaling.factor);
  const T low = static_cast<T>(scaling.low_freq_factor);
  const T range =
      static_cast<T>(scaling.high_freq_factor - scaling.low_freq_factor);
  const double original = scaling.original_max_position_embeddings;
  const auto divide = [&](T number, T by) {
    return reciprocals ? T{1} / by * number : number / by;
  };
  const T wavelength = divide(static_cast<T>(kTwoPi), inv_freq);
  if (wavelength < static_cast<T>(original / scaling.high_freq_factor))
    return 1;
  if (wavelength > static_cast<T>(original / scaling.low_freq_factor)) {
    return static_cast<float>(factor);
  }
  const T smooth = (divide(static_cast<T>(original), wavelength) - low) / range;
  return static_cast<float>(T{1} / ((T{1} - smooth) / factor + smooth));
}

double InverseFrequency(size_t pair, size_t num_pairs, double theta) {
  return 1.0 / std::pow(theta, static_cast<double>(pair) / num_pairs);
}

bool Reproduces(const Llama3Scaling& scaling, float divisor, size_t pair,
                size_t num_pairs, double theta) {
  const double exact = InverseFrequency(pair, num_pairs, theta);
  if (Divisor<double>(scaling, exact, false) == divisor) return true;
  const float power =
      std::pow(static_cast<float>(theta),
               static_cast<float>(pair) / static_cast<float>(num_pairs));
  const float inv_freq = 1.0f / power;
  for (const float candidate : {inv_freq, std::nextafter(inv_freq, 0.0f),
                                std::nextafter(inv_freq, 2.0f)}) {
    if (Divisor<float>(scaling, candidate, true) == divisor ||
        Divisor<float>(scaling, candidate, false) == divisor ||
        Divisor<double>(scaling, candidate, false) == divisor) {
      return true;
    }
  }
  return false;
}

// What the divisors say about the parameters before any are known.
struct Evidence {
  double factor;
  // A blended pair's place on the ramp, 0 for divided and 1 for kept, and the
  // number of its waves in one position.
  struct Blend {
    double smooth;
    double waves;
  };
  std::vector<Blend> blends;
  // The longest wave that is kept and the shortest that is divided; 0 and
  // infinity where there is none.
  double longest_kept = 0;
  double shortest_divided = std::numeric_limits<double>::infinity();
};

Evidence Gather(absl::Span<const float> divisors, double theta, double factor) {
  Evidence evidence = {factor, {}};
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double waves = InverseFrequency(i, divisors.size(), theta) / kTwoPi;
    const double divisor = divisors[i];
    if (divisor == 1.0) {
      evidence.longest_kept = std::max(evidence.longest_kept, 1 / waves);
    } else if (divisor == factor) {
      evidence.shortest_divided =
          std::min(evidence.shortest_divided, 1 / waves);
    } else {
      evidence.blends.push_back(
          {(1 / divisor - 1 / factor) / (1 - 1 / factor), waves});
    }
  }
  return evidence;
}

// The context length that puts every pair on its side of the ramp and the
// blended ones at their place, once the two factors are fixed.
std::vector<double> OriginalLengths(const Evidence& evidence, double low,
                                    double high) {
  std::vector<double> lengths;
  for (const Evidence::Blend& blend : evidence.blends) {
    lengths.push_back((blend.smooth * (high - low) + low) / blend.waves);
  }
  if (!lengths.empty()) return lengths;
  // Nothing is blended: any length between the bounds does. A power of two is
  // what a model is trained with.
  const double smallest = evidence.longest_kept * high;
  const double largest = evidence.shortest_divided * low;
  for (double length = 1; length <= 0x1p31; length *= 2) {
    if (length > smallest && length < largest) lengths.push_back(length);
  }
  return lengths;
}

std::optional<Llama3Scaling> TryFactors(const Evidence& evidence, double low,
                                        double high,
                                        absl::Span<const float> divisors,
                                        double theta) {
  if (!(low > 0 && high > low)) return std::nullopt;
  for (const double length : OriginalLengths(evidence, low, high)) {
    // Each blended divisor has 24 bits of the length; near the ends of the ramp
    // fewer. The neighbours cost nothing to try.
    for (const double rounded :
         {std::round(length), std::floor(length), std::ceil(length)}) {
      if (!(rounded >= 1 && rounded < 0x1p31)) continue;
      const Llama3Scaling scaling = {evidence.factor, low, high,
                                     static_cast<uint32_t>(rounded)};
      if (ReproducesDivisors(scaling, divisors, theta)) return scaling;
    }
  }
  return std::nullopt;
}

// Two blended pairs determine the ramp, smooth = a * waves + b, up to a common
// factor of the length, low and high. Low is 1 in every published model; other
// values are tried after it.
std::optional<Llama3Scaling> SolveRamp(const Evidence& evidence,
                                       absl::Span<const float> divisors,
                                       double theta) {
  const Evidence::Blend& first = evidence.blends.front();
  const Evidence::Blend& last = evidence.blends.back();
  const double slope =
      (first.smooth - last.smooth) / (first.waves - last.waves);
  const double ratio =
      1 - 1 / (first.smooth - slope * first.waves);  // high / low
  if (!(std::isfinite(ratio) && ratio > 1)) return std::nullopt;
  for (const double low : {1.0, 2.0, 0.5, 4.0, 0.25, 8.0, 3.0, 1.5}) {
    // Written by a person: few digits, after which noise begins.
    for (const double digits : {1.0, 10.0, 100.0, 1000.0}) {
      const double high = std::round(low * ratio * digits) / digits;
      if (const auto found = TryFactors(evidence, low, high, divisors, theta)) {
        return found;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

bool ReproducesDivisors(const Llama3Scaling& scaling,
                        absl::Span<const float> divisors, double theta) {
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (!Reproduces(scaling, divisors[i], i, divisors.size(), theta))
      return false;
  }
  return true;
}

std::optional<Llama3Scaling> RecoverLlama3Scaling(
    absl::Span<const float> divisors, double theta) {
  // Llama 3.1 and 3.2, and the rest of their kind.
  for (const double factor : {8.0, 32.0, 16.0, 4.0, 2.0}) {
    const Llama3Scaling published = {factor, 1.0, 4.0, 8192};
    if (ReproducesDivisors(published, divisors, theta)) return published;
  }
  // The slowest pair is divided by the whole factor unless the ramp goes past
  // it.
  std::vector<double> factors = {8.0, 32.0, 16.0, 4.0, 2.0, 64.0};
  if (!divisors.empty()) factors.insert(factors.begin(), divisors.back());
  for (const double factor : factors) {
    if (!(factor > 1)) continue;
    const Evidence evidence = Gather(divisors, theta, factor);
    for (const double high : {4.0, 8.0, 2.0}) {
      if (const auto found = TryFactors(evidence, 1.0, high, divisors, theta)) {
        return found;
      }
    }
    if (evidence.blends.size() < 2) continue;
    if (const auto found = SolveRamp(evidence, divisors, theta)) return found;
  }
  return std::nullopt;
}

}  // namespace lowmem
