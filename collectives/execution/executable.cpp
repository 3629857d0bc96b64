#include <algorithm>

#include <fmt/format.h>

#include <sinew/collectives/execution/executable.hpp>

namespace sinew {
namespace {

void index_followers(Executable& e) {
  const std::vector<Step>& steps = e.program.steps;
  const auto count = static_cast<std::uint32_t>(steps.size());
  e.follower_first.assign(count + 1, 0);
  for (const Step& s : steps) {
    e.waits_for.push_back(s.deps.count);
    for (std::uint32_t d = 0; d < s.deps.count; ++d) ++e.follower_first[e.program.dependencies[s.deps.first + d] + 1];
  }
  for (std::uint32_t i = 0; i < count; ++i) e.follower_first[i + 1] += e.follower_first[i];
  e.followers.resize(e.follower_first[count]);
  std::vector<std::uint32_t> next(e.follower_first.begin(), e.follower_first.end() - 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    const DepRange deps = steps[i].deps;
    for (std::uint32_t d = 0; d < deps.count; ++d) e.followers[next[e.program.dependencies[deps.first + d]]++] = i;
  }
}

double scale_factor(const CollectiveDesc& desc, int ranks) {
  return desc.op == ReduceOp::PreMulSum ? desc.pre_multiply : 1.0 / ranks;
}

}  // namespace

std::string Executable::rank_text(int rank) const {
  return group == nullptr ? fmt::format("rank {}", rank) : group->rank_text(rank);
}

void Executable::set_segments(const Segmentation& segmentation) {
  if (program.whole || local_counts) return;  // a pair agrees on nothing but the whole
  const Segments segmented = segments_of(segmentation, chunks.largest * element_bytes, codec);
  segments = segmented.count;
  depth = segmented.depth;
}

std::unique_ptr<Executable> Executable::prepare(const CollectiveDesc& desc, Program program,
                                                const Segmentation& segmentation) {
  auto e = std::make_unique<Executable>();
  e->local_counts = has_local_counts(desc.collective);
  if (e->local_counts) {
    e->scratch_models = find_scratch_models(program);
    if (program.sized) e->sized = std::make_unique<SizedMessages>(program);
  } else {
    e->chunks = chunk_table(desc, program);
  }
  e->program = std::move(program);
  e->element_bytes = static_cast<std::uint32_t>(size_of(desc.dtype));
  index_followers(*e);
  for (const Step& s : e->program.steps) {
    const bool message = s.op == Op::Send || s.op == Op::Recv;
    e->message_of_step.push_back(message ? e->messages++ : 0);
  }
  e->codec = desc.codec;
  e->unit = cut_unit(desc.codec);
  e->coding = codec_kernels(desc.codec);
  e->set_segments(segmentation);
  // An instance's scratch holds one segment of each scratch chunk; rounding may add a unit to any of them.
  for (std::size_t c = 0; c < e->chunks.scratch.size(); ++c) {
    ChunkTable::Extent& extent = e->chunks.scratch[c];
    const std::uint64_t units = (extent.count + e->unit - 1) / e->unit;
    const std::uint64_t most =
        e->segments == 1 ? extent.count : std::min((units / e->segments + 1) * e->unit, extent.count);
    extent.first = e->scratch_bytes / e->element_bytes;
    e->scratch_bytes += chunk_bytes(e->program.scratch_class[c], most, e->codec, e->element_bytes);
  }
  if (reduces(desc.collective)) {
    e->reducer = desc.op == ReduceOp::User ? *desc.user : reducer_for(desc.op, desc.dtype);
    if (desc.op == ReduceOp::Average || desc.op == ReduceOp::PreMulSum) {
      e->scaler = scaler_for(desc.dtype, scale_factor(desc, e->program.ranks));
    }
  }
  return e;
}

}  // namespace sinew
