#include "backend.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <utility>

#include "arguments.hpp"
#include "errors.hpp"
#include "footprint.hpp"
#include "lists.hpp"
#include "monitored_barrier.hpp"
#include "operation.hpp"
#include "signals.hpp"
#include "sparse.hpp"
#include "tensors.hpp"

namespace sinew::torch_backend {

using namespace operations;  // NOLINT(google-build-using-namespace): names of constants, used in every function

namespace {

template <class Options>
Submission submission(const Operation& operation, const Options& opts) {
  return {operation, opts.timeout, opts.asyncOp};
}

}  // namespace

SinewBackend::SinewBackend(const Membership& membership, c10::intrusive_ptr<SinewOptions> options)
    : Backend(membership.rank, membership.size), options_(std::move(options)), group_(Group::join(membership)) {
  init();
}

SinewBackend::~SinewBackend() { group_->shut_down(kPatience); }

void SinewBackend::setTimeout(std::chrono::milliseconds timeout) {
  group_->timeouts().set(timeout);
  options_->timeout = timeout;
}

void SinewBackend::abort() { group_->abort(c10::str("rank ", rank_, " aborted process group ", pg_uid_)); }

at::Tensor SinewBackend::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK(size >= 0, "SinewBackend::allocateTensor: ", size, " elements, expected 0 or more");
  const auto most = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(options.dtype().itemsize());
  TORCH_CHECK(size <= most, "SinewBackend::allocateTensor: ", size, " elements of ", options.dtype().itemsize(),
              " bytes, expected at most ", most);
  if (!options.device().is_cpu()) return at::empty({size}, options);
  try {
    const std::size_t bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
    const auto memory = std::make_shared<Memory>(group_->allocate(bytes));
    return at::from_blob(
        memory->buffer().data, {size}, [memory](void*) {}, options);
  } catch (const c10::DistBackendError&) {
    return at::empty({size}, options);  // no such memory is left
  }
}

#ifdef C10D_BACKEND_HAS_HOOKS
void SinewBackend::registerAbortHook(std::int64_t id, c10d::AbortHook hook) {
  group_->completion().on_abort().add(id, std::move(hook));
}

void SinewBackend::registerCompletionHook(std::int64_t id, c10d::CompletionHook hook) {
  group_->completion().on_success().add(
      id, [hook = std::move(hook)](std::uint64_t key) { hook({.completionKey = key, .duration_ms = std::nullopt}); });
}
#endif

SinewBackend::WorkPtr SinewBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  arguments::require_root(kBroadcast, opts.rootRank, size_);
  const at::Tensor& tensor = arguments::only(kBroadcast, tensors, "");
  Submission s = submission(kBroadcast, opts);
  const Element element = moved_element(tensor.scalar_type());
  const auto root = static_cast<int>(opts.rootRank);
  const Buffer data = s.buffers.update(tensor);
  s.outputs = tensors;
  return group_->submit(std::move(s), tensors, [&](Communicator& c, const CallOptions& options) {
    return c.broadcast(data, element.dtype, root, options);
  });
}

SinewBackend::WorkPtr SinewBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  if (tensors.size() == 1 && tensors.front().layout() == at::kSparse) return allreduce_sparse(tensors, opts);
  const at::Tensor& tensor = arguments::only(kAllReduce, tensors, "");
  const Reduction reduction = reduction_of(tensor.scalar_type(), opts.reduceOp, kAllReduce.function);
  Submission s = submission(kAllReduce, opts);
  const Buffer data = s.buffers.update(tensor);
  s.outputs = tensors;
  return group_->submit(std::move(s), tensors, [&](Communicator& c, CallOptions& options) {
    options.pre_multiply = reduction.factor;
    return c.all_reduce(data, data, reduction.dtype, reduction.op, options);
  });
}

SinewBackend::WorkPtr SinewBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  if (tensors.size() != 1) reject(kAllReduceSparse.function, "requires a single-element tensor list");
  if (opts.reduceOp != c10d::ReduceOp::SUM) {
    reject(kAllReduceSparse.function,
           "unsupported reduction operation (allreduce of sparse tensors only works with ReduceOp.SUM)");
  }
  if (tensors.front().layout() != at::kSparse || !tensors.front().device().is_cpu())
    reject(kAllReduceSparse.function, "expected a sparse COO tensor in CPU memory; move it by .cpu()");
  return all_reduce_sparse(*group_, tensors.front(), opts.timeout);
}

SinewBackend::WorkPtr SinewBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  const Operation& op = kAllReduceCoalesced;
  if (tensors.empty()) reject(op.function, "requires non-empty tensor list");
  require_dense(tensors, op.function);
  require_same_dtype(tensors, tensors.front().scalar_type(), op.function);
  const Reduction reduction = reduction_of(tensors.front().scalar_type(), opts.reduceOp, op.function);
  Submission s = submission(op, opts);
  const bool apart = !Footprint().write(tensors).overlaps();
  std::vector<Buffer> data;
  for (const at::Tensor& t : tensors) data.push_back(s.buffers.update(t, apart));
  s.outputs = tensors;
  return group_->submit_several(std::move(s), tensors, [&](Communicator& c, CallOptions& options, WorkList& works) {
    options.pre_multiply = reduction.factor;
    for (const Buffer& b : data) works.push_back(c.all_reduce(b, b, reduction.dtype, reduction.op, options));
  });
}

SinewBackend::WorkPtr SinewBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  arguments::require_root(kReduce, opts.rootRank, size_);
  const at::Tensor& tensor = arguments::only(kReduce, tensors, "");
  const Reduction reduction = reduction_of(tensor.scalar_type(), opts.reduceOp, kReduce.function);
  Submission s = submission(kReduce, opts);
  const auto root = static_cast<int>(opts.rootRank);
  // The tensors of the other ranks stay as they are.
  const Buffer out = rank_ == root ? s.buffers.update(tensor) : Buffer{};
  const ConstBuffer in = rank_ == root ? ConstBuffer(out) : s.buffers.read(tensor);
  s.outputs = tensors;
  return group_->submit(std::move(s), tensors, [&](Communicator& c, CallOptions& options) {
    options.pre_multiply = reduction.factor;
    return c.reduce(in, out, reduction.dtype, root, reduction.op, options);
  });
}

SinewBackend::WorkPtr SinewBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& opts) {
  const at::Tensor& input = arguments::only(kAllGather, inputs, "input ");
  arguments::require_equal_lists(kAllGather, outputs.size(), inputs.size());
  Tensors& output = outputs.front();
  arguments::require_one_per_rank(kAllGather, output, input, size_, "output");
  require_same(output[static_cast<std::size_t>(rank_)], input, kAllGather.function);
  Submission s = submission(kAllGather, opts);
  const Element element = moved_element(input.scalar_type());
  const bool apart = !Footprint().write(output).read_part(input, output[static_cast<std::size_t>(rank_)], 0).overlaps();
  const ConstBuffer in = s.buffers.read(input);
  const WriteList out = write_list(s.buffers, output, apart);
  s.outputs = Outputs::of_lists(outputs);
  return group_->submit(std::move(s), inputs, [&](Communicator& c, const CallOptions& options) {
    return lists::all_gather(c, in, out, element.dtype, options);
  });
}

SinewBackend::WorkPtr SinewBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& opts) {
  const Operation& op = kAllGatherCoalesced;
  if (inputs.empty()) reject(op.function, "requires non-empty input tensor list");
  if (outputs.size() != static_cast<std::size_t>(size_))
    reject(op.function, c10::str("output lists should be equal to world size: found ", outputs.size(), " for ", size_));
  require_dense(inputs, op.function);
  for (const Tensors& list : outputs) {
    if (list.size() != inputs.size()) {
      reject(op.function,
             c10::str("invalid output size: (expected length ", inputs.size(), ", got ", list.size(), ")"));
    }
    require_dense(list, op.function);
    for (std::size_t i = 0; i < list.size(); ++i) require_same(list[i], inputs[i], op.function);
  }
  Footprint memory;
  for (const Tensors& list : outputs) memory.write(list);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    memory.read_part(inputs[i], outputs[static_cast<std::size_t>(rank_)][i], 0);
  const bool apart = !memory.overlaps();
  Submission s = submission(op, opts);
  std::vector<ConstBuffer> in;
  std::vector<WriteList> out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors of_ranks;
    for (const Tensors& list : outputs) of_ranks.push_back(list[i]);
    in.push_back(s.buffers.read(inputs[i]));
    out.push_back(write_list(s.buffers, of_ranks, apart));
  }
  s.outputs = Outputs::of_lists(outputs);
  return group_->submit_several(std::move(s), inputs, [&](Communicator& c, const CallOptions& o, WorkList& works) {
    for (std::size_t i = 0; i < in.size(); ++i)
      works.push_back(lists::all_gather(c, in[i], out[i], moved_element(inputs[i].scalar_type()).dtype, o));
  });
}

SinewBackend::WorkPtr SinewBackend::all_gather_single(at::Tensor& output, at::Tensor& input,
                                                      const c10d::AllgatherOptions& opts) {
  return all_gather_each(submission(kAllGatherSingle, opts), output, input);
}

SinewBackend::WorkPtr SinewBackend::all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                                                const c10d::AllgatherOptions& opts) {
  return all_gather_each(submission(kAllGatherSingleCoalesced, opts), outputs, inputs);
}

SinewBackend::WorkPtr SinewBackend::all_gather_each(Submission&& s, at::TensorList outputs, at::TensorList inputs) {
  const Operation& op = s.operation;
  struct One {
    ConstBuffer in;
    Buffer out;
    DType dtype;
  };
  c10::SmallVector<One, 1> calls;
  Footprint memory;
  arguments::require_equal_lists(op, outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense(inputs[i], op.function);
    require_dense(outputs[i], op.function);
    arguments::require_parts(op, outputs[i], inputs[i], size_);
    memory.write(outputs[i]);
    memory.read_part(inputs[i], outputs[i], rank_);
  }
  const bool apart = !memory.overlaps();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ConstBuffer in = s.buffers.read(inputs[i]);
    calls.push_back({in, s.buffers.write(outputs[i], apart), moved_element(inputs[i].scalar_type()).dtype});
  }
  s.outputs = outputs.vec();
  return group_->submit_several(std::move(s), inputs, [&](Communicator& c, const CallOptions& o, WorkList& works) {
    for (const One& one : calls) works.push_back(c.all_gather(one.in, one.out, one.dtype, o));
  });
}

SinewBackend::WorkPtr SinewBackend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  arguments::require_root(kGather, opts.rootRank, size_);
  const at::Tensor& input = arguments::only(kGather, inputs, "input ");
  const auto root = static_cast<int>(opts.rootRank);
  Submission s = submission(kGather, opts);
  const Element element = moved_element(input.scalar_type());
  const ConstBuffer in = s.buffers.read(input);
  WriteList out;
  if (rank_ == root) {
    if (outputs.size() != 1)
      reject(kGather.function,
             c10::str("requires a single-element output list containing a list with ", size_, " tensors."));
    arguments::require_one_per_rank(kGather, outputs.front(), input, size_, "output");
    require_same(outputs.front(), input, kGather.function);
    Tensors& output = outputs.front();
    const bool apart =
        !Footprint().write(output).read_part(input, output[static_cast<std::size_t>(rank_)], 0).overlaps();
    out = write_list(s.buffers, output, apart);
  } else if (!outputs.empty()) {
    reject(kGather.function, "requires empty output on non-root");
  }
  s.outputs = Outputs::of_lists(outputs);
  return group_->submit(std::move(s), inputs, [&](Communicator& c, const CallOptions& options) {
    return lists::gather(c, in, out, element.dtype, root, options);
  });
}

SinewBackend::WorkPtr SinewBackend::gather_single(at::Tensor& output, at::Tensor& input,
                                                  const c10d::GatherOptions& opts) {
  arguments::require_root(kGatherSingle, opts.rootRank, size_);
  require_dense(input, kGatherSingle.function);
  const auto root = static_cast<int>(opts.rootRank);
  Submission s = submission(kGatherSingle, opts);
  const Element element = moved_element(input.scalar_type());
  const ConstBuffer in = s.buffers.read(input);
  Buffer out;
  if (rank_ == root) {
    require_dense(output, kGatherSingle.function);
    arguments::require_parts(kGatherSingle, output, input, size_);
    const bool apart = !Footprint().write(output).read_part(input, output, rank_).overlaps();
    out = s.buffers.write(output, apart);
    s.outputs = Tensors{output};
  }
  return group_->submit(std::move(s), input, [&](Communicator& c, const CallOptions& options) {
    return c.gather(in, out, element.dtype, root, options);
  });
}

SinewBackend::WorkPtr SinewBackend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) {
  arguments::require_root(kScatter, opts.rootRank, size_);
  const at::Tensor& output = arguments::only(kScatter, outputs, "output ");
  const auto root = static_cast<int>(opts.rootRank);
  Submission s = submission(kScatter, opts);
  const Element element = moved_element(output.scalar_type());
  ReadList in;
  if (rank_ == root) {
    if (inputs.size() != 1)
      reject(kScatter.function,
             c10::str("requires a single-element input list containing a list with ", size_, " tensors"));
    arguments::require_one_per_rank(kScatter, inputs.front(), output, size_, "input");
    require_same(inputs.front(), output, kScatter.function);
    in = read_list(s.buffers, inputs.front());
  } else if (!inputs.empty()) {
    reject(kScatter.function, "requires empty input on non-root");
  }
  const at::TensorList profiled = inputs.empty() ? at::TensorList() : at::TensorList(inputs.front());
  const bool apart = !Footprint().write(output).read(profiled).overlaps();
  const Buffer out = s.buffers.write(output, apart);
  s.outputs = outputs;
  return group_->submit(std::move(s), profiled, [&](Communicator& c, const CallOptions& options) {
    return lists::scatter(c, in, out, element.dtype, root, options);
  });
}

SinewBackend::WorkPtr SinewBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                   const c10d::ReduceScatterOptions& opts) {
  const at::Tensor& output = arguments::only(kReduceScatter, outputs, "output ");
  arguments::require_equal_lists(kReduceScatter, outputs.size(), inputs.size());
  Tensors& input = inputs.front();
  arguments::require_one_per_rank(kReduceScatter, input, output, size_, "input");
  require_same(input[static_cast<std::size_t>(rank_)], output, kReduceScatter.function);
  const Reduction reduction = reduction_of(output.scalar_type(), opts.reduceOp, kReduceScatter.function);
  Submission s = submission(kReduceScatter, opts);
  const bool apart = !Footprint().write(output).read(input).overlaps();
  const ReadList in = read_list(s.buffers, input);
  const Buffer out = s.buffers.write(output, apart);
  s.outputs = outputs;
  return group_->submit(std::move(s), input, [&](Communicator& c, CallOptions& options) {
    options.pre_multiply = reduction.factor;
    return lists::reduce_scatter(c, in, out, reduction, options);
  });
}

SinewBackend::WorkPtr SinewBackend::reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                                          const c10d::ReduceScatterOptions& opts) {
  return reduce_scatter_each(submission(kReduceScatterSingle, opts), output, input, opts.reduceOp);
}

SinewBackend::WorkPtr SinewBackend::reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                                                    const c10d::ReduceScatterOptions& opts) {
  return reduce_scatter_each(submission(kReduceScatterSingleCoalesced, opts), outputs, inputs, opts.reduceOp);
}

SinewBackend::WorkPtr SinewBackend::reduce_scatter_each(Submission&& s, at::TensorList outputs, at::TensorList inputs,
                                                        const c10d::ReduceOp& reduce_op) {
  const Operation& op = s.operation;
  struct One {
    ConstBuffer in;
    Buffer out;
    Reduction reduction;
  };
  c10::SmallVector<One, 1> calls;
  Footprint memory;
  arguments::require_equal_lists(op, outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense(inputs[i], op.function);
    require_dense(outputs[i], op.function);
    arguments::require_parts(op, inputs[i], outputs[i], size_);
    memory.write(outputs[i]);
    memory.read_all(inputs[i], outputs[i], rank_);
  }
  const bool apart = !memory.overlaps();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Reduction reduction = reduction_of(inputs[i].scalar_type(), reduce_op, op.function);
    const ConstBuffer in = s.buffers.read(inputs[i]);
    calls.push_back({in, s.buffers.write(outputs[i], apart), reduction});
  }
  s.outputs = outputs.vec();
  return group_->submit_several(std::move(s), inputs, [&](Communicator& c, CallOptions& o, WorkList& works) {
    for (const One& one : calls) {
      o.pre_multiply = one.reduction.factor;
      works.push_back(c.reduce_scatter(one.in, one.out, one.reduction.dtype, one.reduction.op, o));
    }
  });
}

SinewBackend::WorkPtr SinewBackend::all_to_all_single(at::Tensor& output, at::Tensor& input, Splits& output_splits,
                                                      Splits& input_splits, const c10d::AllToAllOptions& opts) {
  const Operation& op = kAllToAllSingle;
  require_dense(input, op.function);
  require_dense(output, op.function);
  require_same_dtype(output, input.scalar_type(), op.function);
  c10d::checkSplitSizes(input_splits, input, size_);
  c10d::checkSplitSizes(output_splits, output, size_);
  Submission s = submission(op, opts);
  const Element element = moved_element(input.scalar_type());
  const bool equal = output_splits.empty() && input_splits.empty();
  Footprint memory;
  memory.write(output);
  if (!equal || input.const_data_ptr() != output.const_data_ptr()) memory.read(input);
  const bool apart = !memory.overlaps();
  const ConstBuffer in = s.buffers.read(input);
  const Buffer out = s.buffers.write(output, apart);
  s.outputs = Tensors{output};
  std::vector<std::uint64_t> in_counts(static_cast<std::size_t>(size_));
  std::vector<std::uint64_t> out_counts(in_counts.size());
  std::vector<std::uint64_t> offsets(in_counts.size());
  if (!equal) {
    c10d::computeLengthsAndOffsets(input_splits, input, &in_counts, &offsets);
    c10d::computeLengthsAndOffsets(output_splits, output, &out_counts, &offsets);
    for (std::uint64_t& n : in_counts) n *= element.each;
    for (std::uint64_t& n : out_counts) n *= element.each;
  }
  return group_->submit(std::move(s), input, [&](Communicator& c, const CallOptions& options) {
    return equal ? c.all_to_all(in, out, element.dtype, options)
                 : c.all_to_all_v(in, out, element.dtype, Parts{in_counts, {}}, Parts{out_counts, {}}, options);
  });
}

SinewBackend::WorkPtr SinewBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  if (inputs.empty()) reject(kAllToAll.function, "requires non-empty input tensor list");
  const at::Tensor like = inputs.front();
  arguments::require_one_per_rank(kAllToAll, inputs, like, size_, "input");
  arguments::require_one_per_rank(kAllToAll, outputs, like, size_, "output");
  Submission s = submission(kAllToAll, opts);
  const Element element = moved_element(like.scalar_type());
  const ReadList in = read_list(s.buffers, inputs);
  const bool apart = !Footprint().write(outputs).read(inputs).overlaps();
  const WriteList out = write_list(s.buffers, outputs, apart);
  s.outputs = outputs;
  return group_->submit(std::move(s), inputs, [&](Communicator& c, const CallOptions& options) {
    return lists::all_to_all(c, in, out, element.dtype, options);
  });
}

SinewBackend::WorkPtr SinewBackend::send(Tensors& tensors, int to_rank, int tag) {
  const at::Tensor& tensor = arguments::only(kSend, tensors, "");
  const std::uint32_t checked_tag = arguments::tag(kSend, tag);
  Submission s{kSend, c10d::kUnsetTimeout, true};
  const ConstBuffer from = s.buffers.read(tensor);
  s.outputs = tensors;
  return group_->submit(std::move(s), tensors, [&](Communicator& c, const CallOptions& options) {
    return c.send(from, to_rank, checked_tag, options);
  });
}

SinewBackend::WorkPtr SinewBackend::recv(Tensors& tensors, int from_rank, int tag) {
  const at::Tensor& tensor = arguments::only(kRecv, tensors, "");
  const std::uint32_t checked_tag = arguments::tag(kRecv, tag);
  Submission s{kRecv, c10d::kUnsetTimeout, true};
  const Buffer to = s.buffers.write(tensor);
  s.outputs = tensors;
  return group_->submit(std::move(s), tensors, [&](Communicator& c, const CallOptions& options) {
    return c.recv(to, from_rank, checked_tag, options);
  });
}

SinewBackend::WorkPtr SinewBackend::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor& tensor = arguments::only(kRecvAnySource, tensors, "");
  const std::uint32_t checked_tag = arguments::tag(kRecvAnySource, tag);
  Submission s{kRecvAnySource, c10d::kUnsetTimeout, true};
  const Buffer to = s.buffers.write(tensor);
  s.outputs = tensors;
  return group_->submit(std::move(s), tensors, [&](Communicator& c, const CallOptions& options) {
    return c.recv_any(to, checked_tag, options);
  });
}

SinewBackend::WorkPtr SinewBackend::barrier(const c10d::BarrierOptions& opts) {
  if (!opts.asyncOp) group_->drain();
  return group_->submit(submission(kBarrier, opts), {},
                        [](Communicator& c, const CallOptions& options) { return c.barrier(options); });
}

void SinewBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool all_missing) {
  const WithoutPythonLock unlocked;
  const auto timeout = opts.timeout == c10d::kUnsetTimeout ? group_->timeouts().of_group() : bounded(opts.timeout);
  monitored_barrier(*group_, timeout, all_missing);
}

}  // namespace sinew::torch_backend
