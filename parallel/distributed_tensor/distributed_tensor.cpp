#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/distributed_tensor/byte_routes.hpp>
#include <sinew/parallel/distributed_tensor/distributed_tensor.hpp>
#include <sinew/parallel/placement/normal_form.hpp>
#include <sinew/parallel/placement/redistribution/consent.hpp>
#include <sinew/parallel/placement/redistribution/neutral.hpp>
#include <sinew/parallel/placement/shard_arithmetic.hpp>
#include <sinew/parallel/placement/validity.hpp>

namespace sinew::parallel {
namespace {

std::string placed_text(const TensorSpec& spec) {
  return fmt::format("{}, {}", spec.to_string(), spec.placements.to_string());
}

/// Why the mesh cannot hold the tensor. The text is the same on all ranks that ask for the same. Empty: it can.
std::string fault_of_tensor_on(const TensorSpec& spec, Mesh& mesh) {
  std::string fault = fault_of(spec, mesh.shape());
  try {
    if (fault.empty()) {
      const Placements placements = normal_form(spec, mesh.shape());
      for (const auto& [axis, placement] : placements.entries()) static_cast<void>(mesh.along(axis));
    }
  } catch (const Error& e) {
    fault = e.what();
  }
  return fault.empty() ? fault : fmt::format("tensor {}: {}", spec.to_string(), fault);
}

/// found: the bytes of the user's buffer. `expected` is called only if the spec is valid.
template <class Expected>
void require_makeable(Mesh& mesh, const TensorSpec& spec, std::string_view which, std::size_t found,
                      const Expected& expected, const CallOptions& options) {
  std::string fault = fault_of_tensor_on(spec, mesh);
  if (fault.empty() && found != expected())
    fault = fmt::format("tensor {}: {} has {} bytes; expected {} for {}", spec.to_string(), which, found, expected(),
                        spec.placements.to_string());
  require_consent(placed_text(spec), fault, mesh, options, "distributed tensor");
}

}  // namespace

DistributedTensor::DistributedTensor(Mesh& mesh, TensorSpec spec, const CallOptions& options) {
  require_consent(placed_text(spec), fault_of_tensor_on(spec, mesh), mesh, options, "distributed tensor");
  *this = unchecked(mesh, std::move(spec));
}

DistributedTensor DistributedTensor::unchecked(Mesh& mesh, TensorSpec spec) {
  DistributedTensor made;
  made.mesh_ = &mesh;
  made.spec_ = std::move(spec);
  made.spec_.placements = normal_form(made.spec_, mesh.shape());
  made.data_.resize(local_bytes(made.spec_, mesh.shape(), mesh.rank()));
  return made;
}

DistributedTensor DistributedTensor::from_local(Mesh& mesh, TensorSpec spec, ConstBuffer local,
                                                const CallOptions& options) {
  const auto expected = [&] { return local_bytes(spec, mesh.shape(), mesh.rank()); };
  require_makeable(mesh, spec, "the local buffer", local.bytes, expected, options);
  DistributedTensor made = unchecked(mesh, std::move(spec));
  if (local.bytes > 0) std::memcpy(made.data_.data(), local.data, local.bytes);
  return made;
}

DistributedTensor DistributedTensor::distribute(Mesh& mesh, TensorSpec spec, ConstBuffer whole,
                                                const CallOptions& options) {
  const std::size_t each = size_of(spec.dtype);
  const auto expected = [&] { return static_cast<std::size_t>(spec.elements()) * each; };
  require_makeable(mesh, spec, "the whole", whole.bytes, expected, options);
  DistributedTensor made = unchecked(mesh, std::move(spec));
  for (const auto& [axis, placement] : made.placements().entries()) {
    const auto* partial = std::get_if<Partial>(&placement);
    if (partial == nullptr || !has_neutral(partial->op) || mesh.index(axis) == 0) continue;
    fill_neutral(made.local(), made.spec_.dtype, partial->op);
    return made;
  }
  const Box all{std::vector<std::int64_t>(made.spec_.shape.size(), 0), made.spec_.shape};
  copy_box(whole.data, all, made.data_.data(), made.box(), made.box(), each);
  return made;
}

Box DistributedTensor::box() const { return box_of(spec_, mesh_->shape(), mesh_->rank()); }

DistributedTensor DistributedTensor::named(std::string name) const {
  DistributedTensor other = *this;
  other.spec_.name = std::move(name);
  return other;
}

void DistributedTensor::require_dtype(DType asked) const {
  if (asked != spec_.dtype)
    throw Error(Code::InvalidArgument, fmt::format("values of tensor {}: asked for {}; expected {}", spec_.to_string(),
                                                   name_of(asked), name_of(spec_.dtype)));
}

DistributedTensor redistribute(const DistributedTensor& tensor, const Placements& to, const CallOptions& options) {
  Mesh& mesh = tensor.mesh();
  TensorSpec spec = tensor.spec();
  spec.placements = to;
  if (const std::string fault = fault_of_tensor_on(spec, mesh); !fault.empty())
    throw Error(Code::InvalidArgument, fmt::format("redistribute to {}: {}", to.to_string(), fault));
  spec.placements = normal_form(spec, mesh.shape());
  if (spec.placements == tensor.placements()) return tensor;
  DistributedTensor made = DistributedTensor::unchecked(mesh, spec);
  const ByteRoutes routes(tensor.spec(), std::span(&spec.placements, 1), mesh.shape());
  redistribute(routes.route(spec.placements).plan, tensor.local(), made.local(), mesh, options);
  return made;
}

}  // namespace sinew::parallel
