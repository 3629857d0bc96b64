#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <sinew/parallel/context/block_attention.hpp>

namespace sinew::parallel::test {

using Values = std::vector<double>;

inline Values wave(std::int64_t count, int seed) {
  Values all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::sin(0.7 * static_cast<double>(i) + seed);
  return all;
}
inline double& at(Values& v, std::int64_t i) { return v[static_cast<std::size_t>(i)]; }

/// Which keys a query sees, by its definition: `documents` gives the number of each position's.
struct Sight {
  bool causal = true;
  std::vector<int> documents;

  bool sees(std::int64_t query, std::int64_t key) const {
    if (causal && key > query) return false;
    return documents.empty() || documents[static_cast<std::size_t>(query)] == documents[static_cast<std::size_t>(key)];
  }
  AttentionMask mask() const {
    std::vector<std::int64_t> starts;
    for (std::size_t p = 1; p < documents.size(); ++p) {
      if (documents[p] != documents[p - 1]) starts.push_back(static_cast<std::int64_t>(p));
    }
    return AttentionMask(causal, starts);
  }
};

/// Attention by its definition, of whole sequences, all heads; forward and all gradients.
struct WholeAttention {
  AttentionHeads h;
  std::int64_t length;
  std::vector<Sight> sight;  // of each sequence
  Values sinks;              // of each head, or none
  Values q, k, v, dout, out, dq, dk, dv, dsinks;

  WholeAttention(const AttentionHeads& heads, std::int64_t of, std::vector<Sight> sights, Values scores = {})
      : h(heads), length(of), sight(std::move(sights)), sinks(std::move(scores)) {
    const std::int64_t tokens = length * std::ssize(sight);
    q = wave(tokens * h.width(), 1), k = wave(tokens * h.key_value_width(), 2);
    v = wave(tokens * h.key_value_width(), 3), dout = wave(tokens * h.width(), 4);
    compute();
  }

  void compute() {
    out.assign(q.size(), 0), dq.assign(q.size(), 0), dk.assign(k.size(), 0), dv.assign(k.size(), 0);
    dsinks.assign(sinks.size(), 0);
    for (std::int64_t s = 0; s < std::ssize(sight); ++s) {
      for (std::int64_t i = 0; i < length; ++i) {
        for (int head = 0; head < h.heads; ++head) one(s, i, head);
      }
    }
  }

 private:
  void one(std::int64_t s, std::int64_t i, int head) {
    const int w = h.head_width;
    const double scale = 1 / std::sqrt(static_cast<double>(w));
    const std::int64_t mine = (s * length + i) * h.width() + std::int64_t{head} * w;
    const auto theirs = [&](std::int64_t j) {
      return (s * length + j) * h.key_value_width() + std::int64_t{h.key_value_of(head)} * w;
    };
    Values p(static_cast<std::size_t>(length)), slope(p.size());
    const double sink = sinks.empty() ? 0 : std::exp(at(sinks, head));
    double total = sink, along = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      if (!sight[static_cast<std::size_t>(s)].sees(i, j)) continue;
      double score = 0;
      for (int d = 0; d < w; ++d) score += at(q, mine + d) * at(k, theirs(j) + d);
      total += at(p, j) = std::exp(score * scale);
    }
    for (std::int64_t j = 0; j < length; ++j) {
      if (at(p, j) == 0) continue;
      at(p, j) /= total;
      for (int d = 0; d < w; ++d) {
        at(out, mine + d) += at(p, j) * at(v, theirs(j) + d);
        at(dv, theirs(j) + d) += at(p, j) * at(dout, mine + d);
        at(slope, j) += at(dout, mine + d) * at(v, theirs(j) + d);
      }
      along += at(p, j) * at(slope, j);
    }
    if (!sinks.empty()) at(dsinks, head) -= sink / total * along;
    for (std::int64_t j = 0; j < length; ++j) {
      const double ds = at(p, j) * (at(slope, j) - along) * scale;
      if (at(p, j) == 0) continue;
      for (int d = 0; d < w; ++d) {
        at(dq, mine + d) += ds * at(k, theirs(j) + d);
        at(dk, theirs(j) + d) += ds * at(q, mine + d);
      }
    }
  }
};

/// Rows of some positions of each sequence.
inline Values picked(const Values& of, const std::vector<std::int64_t>& positions, std::int64_t width,
                     std::int64_t length) {
  Values some;
  for (std::int64_t s = 0; s < std::ssize(of) / std::max<std::int64_t>(width * length, 1); ++s) {
    for (const std::int64_t p : positions) {
      const auto from = of.begin() + (s * length + p) * width;
      some.insert(some.end(), from, from + width);
    }
  }
  return some;
}

inline double worst(const Values& a, const Values& b) {
  if (a.size() != b.size()) return 1e300;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace sinew::parallel::test
