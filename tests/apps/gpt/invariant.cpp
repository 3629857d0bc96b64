#include "invariant.hpp"

#include <algorithm>
#include <bit>
#include <gpt/train/plan.hpp>
#include <gpt/train/trainer.hpp>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/job/job_rules.hpp>
#include <support/worlds.hpp>

namespace gpt::test {
namespace {

namespace sp = sinew::parallel;

std::uint64_t bits_of(const sp::OwnedPart& part, std::int64_t element) {
  if (part.dtype == sinew::DType::F64)
    return std::bit_cast<std::uint64_t>(reinterpret_cast<const double*>(part.value.data)[element]);
  if (part.dtype == sinew::DType::BF16) return reinterpret_cast<const std::uint16_t*>(part.value.data)[element];
  return std::bit_cast<std::uint32_t>(reinterpret_cast<const float*>(part.value.data)[element]);
}

using Seen = std::map<std::string, std::vector<std::optional<std::uint64_t>>>;

/// Of what this rank owns; copies on several ranks have the same bits.
void collect(Trainer& trainer, Seen& seen) {
  for (const sp::OwnedPart& part : trainer.job().data().owned_values()) {
    const sp::DataParameter& info = trainer.job().data().parameters()[static_cast<std::size_t>(part.parameter)];
    auto& all = seen[info.path];
    std::size_t whole = 1;
    for (const std::int64_t extent : info.shape) whole *= static_cast<std::size_t>(extent);
    all.resize(whole);
    for (std::int64_t k = part.first; k < part.last; ++k) {
      auto& element = all[static_cast<std::size_t>(info.number_in_whole(k))];
      const std::uint64_t bits = bits_of(part, k - part.first);
      EXPECT_EQ(element.value_or(bits), bits) << "copies of " << info.path << " differ";
      element = bits;
    }
  }
}

std::size_t other_bits(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  if (a.size() != b.size()) return std::max(a.size(), b.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

}  // namespace

Bits train_for_bits(int ranks, const Options& options, int changed) {
  std::vector<Bits> by_rank(static_cast<std::size_t>(ranks));
  Seen seen;
  std::mutex mutex;
  sinew::test::on_threads(ranks, sinew::test::only("inproc"), [&](sinew::World& world) {
    Text text = words();
    Trainer trainer(world, options, text);
    if (world.rank() == changed) text = words(true);
    Bits& mine = by_rank[static_cast<std::size_t>(world.rank())];
    for (std::int64_t step = 0; step < options.steps; ++step) {
      const StepReport report = trainer.step(step);
      mine.losses.push_back(std::bit_cast<std::uint64_t>(report.loss));
      mine.norms.push_back(std::bit_cast<std::uint64_t>(report.norm));
    }
    const std::lock_guard lock(mutex);
    collect(trainer, seen);
  });
  Bits all = by_rank.front();
  for (const Bits& rank : by_rank) {
    EXPECT_EQ(rank.losses, all.losses);
    EXPECT_EQ(rank.norms, all.norms);
  }
  for (const auto& [path, elements] : seen) {
    for (const auto& element : elements) {
      EXPECT_TRUE(element.has_value()) << path;
      all.weights[path].push_back(element.value_or(0));
    }
  }
  return all;
}

void Comparison::add(const std::string& layout, const Bits& bits, const Bits& alone) {
  ++runs;
  std::string what;
  if (const std::size_t n = other_bits(bits.losses, alone.losses); n > 0) what += fmt::format(", {} losses", n);
  if (const std::size_t n = other_bits(bits.norms, alone.norms); n > 0) what += fmt::format(", {} norms", n);
  std::size_t weights = 0;
  std::string path;
  for (const auto& [name, elements] : alone.weights) {
    const auto theirs = bits.weights.find(name);
    const std::size_t n = theirs == bits.weights.end() ? elements.size() : other_bits(theirs->second, elements);
    if (n > 0 && path.empty()) path = name;
    weights += n;
  }
  if (weights > 0) what += fmt::format(", {} weights, of {} first", weights, path);
  if (what.empty()) return;
  ++differing;
  if (first.empty()) first = layout + what;
}

std::string layout_name(int ranks, const sp::JobConfig& job) {
  const sp::LayoutSizes& l = job.layout;
  std::string name = fmt::format("{} ranks: dp {} cp {} ({} share heads) tp {}{}, zero {}, {} passes", ranks,
                                 sp::data_ranks(ranks, job), l.cp, sp::head_sharers(job), l.tp,
                                 job.sequence_parallel ? " with rows cut" : "", job.zero, job.micro_batches);
  if (job.replicas > 1) name += fmt::format(", {} replicas", job.replicas);
  if (sp::stages(job) > 1) name += fmt::format(", pp {}, {} stages of {}", l.pp, sp::stages(job), job.schedule);
  return name;
}

std::vector<sp::JobConfig> invariant_layouts(int ranks, const Options& options) {
  std::vector<sp::JobConfig> candidates;
  for (const std::int64_t passes : {1, 2, 4}) {
    Options some = options;
    some.job.micro_batches = passes;
    for (auto&& layouts : {layouts_of(ranks, some), pipelines_of(ranks, some)}) {
      for (sp::JobConfig job : layouts) {
        candidates.push_back(job);
        for (job.replicas = 2; job.zero == 3 && job.replicas <= 4; job.replicas *= 2) candidates.push_back(job);
      }
    }
  }
  const sp::EngineFacts engine = engine_facts(options.shape);
  std::erase_if(candidates, [&](const sp::JobConfig& job) { return !sp::violations(ranks, job, engine).empty(); });
  return candidates;
}

std::vector<std::pair<std::string, Options>> invariant_models() {
  Options plain;
  plain.shape = {.layers = 8, .heads = 8, .width = 24, .context = 16};
  plain.job.global_batch = 16;
  plain.job.determinism = sinew::Determinism::LayoutInvariant;
  plain.steps = 3;
  plain.warmup = 2;
  Options much = plain;
  much.shape.layers = 4;
  much.shape.key_value_heads = 4;
  much.shape.dropout = 0.1;
  much.shape.document_end = ' ';
  much.job.precision = {sinew::DType::F64, sinew::DType::F64, sinew::DType::F64};
  much.job.recompute = sp::Recompute::Full;
  Options narrow = plain;
  narrow.shape.layers = 4;
  narrow.job.precision = {sinew::DType::BF16, sinew::DType::F32, sinew::DType::BF16};
  narrow.job.recompute = sp::Recompute::Selective;
  return {{"f32", plain}, {"f64, shared heads, dropout, documents, recomputed", much}, {"bf16", narrow}};
}

}  // namespace gpt::test
