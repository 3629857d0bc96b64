#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sinew/core/error.hpp>
#include <sinew/parallel/planner/model/model_json.hpp>
#include <sinew/parallel/planner/model/model_shape.hpp>
#include <sinew/parallel/planner/model/named_models.hpp>

namespace sinew::parallel {
namespace {

using Json = nlohmann::json;
using Member = std::variant<std::string ModelShape::*, std::int64_t ModelShape::*, bool ModelShape::*>;

struct Field {
  const char* name;
  Member member;
  bool required = false;
};

const std::vector<Field>& fields() {
  using M = ModelShape;
  static const std::vector<Field> all{
      {"name", &M::name},
      {"layers", &M::layers, true},
      {"hidden", &M::hidden, true},
      {"heads", &M::heads},
      {"key_value_heads", &M::key_value_heads},
      {"head_width", &M::head_width},
      {"feed_forward", &M::feed_forward},
      {"gated", &M::gated},
      {"vocabulary", &M::vocabulary, true},
      {"context", &M::context, true},
      {"tied", &M::tied},
      {"learned_positions", &M::learned_positions},
      {"biases", &M::biases},
      {"layer_norm", &M::layer_norm},
      {"dropout", &M::dropout},
      {"experts", &M::experts},
      {"top_k", &M::top_k},
      {"shared_experts", &M::shared_experts},
      {"expert_feed_forward", &M::expert_feed_forward},
      {"dense_layers", &M::dense_layers},
      {"router_bias", &M::router_bias},
      {"query_rank", &M::query_rank},
      {"key_value_rank", &M::key_value_rank},
      {"rope_width", &M::rope_width},
      {"value_width", &M::value_width},
      {"mamba", &M::mamba},
      {"attention_every", &M::attention_every},
      {"state_inner", &M::state_inner},
      {"states", &M::states},
      {"taps", &M::taps},
      {"step_rank", &M::step_rank},
      {"state_head_width", &M::state_head_width},
      {"state_groups", &M::state_groups},
  };
  return all;
}

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 40 ? std::string(value.type_name()) : text;
}

/// Collects the faults of a file's members.
class Reading {
 public:
  explicit Reading(const Json& object) : object_(object) {}

  void read(const Field& field, ModelShape& into) {
    const auto found = object_.find(field.name);
    if (found == object_.end()) {
      if (field.required) reject_absent(field.name);
      return;
    }
    std::visit([&](auto member) { read(field.name, *found, into.*member); }, field.member);
  }
  /// Requires a member if some layer needs it: feed_forward of an MLP, heads of attention.
  void require_if(bool is_needed, const char* name) {
    if (is_needed && !object_.contains(name)) reject_absent(name);
  }
  void reject_unknown() {
    std::vector<std::string_view> names;
    for (const Field& f : fields()) names.emplace_back(f.name);
    for (const auto& [key, value] : object_.items()) {
      if (std::ranges::find(names, key) == names.end())
        reject(key, fmt::format("is unknown, expected one of {}", fmt::join(names, ", ")));
    }
  }
  const std::vector<std::string>& faults() const noexcept { return faults_; }

 private:
  void read(const char* name, const Json& from, std::string& to) {
    if (!from.is_string()) return reject(name, fmt::format("{}, expected a string", shown(from)));
    to = from.get<std::string>();
  }
  void read(const char* name, const Json& from, bool& to) {
    if (!from.is_boolean()) return reject(name, fmt::format("{}, expected true or false", shown(from)));
    to = from.get<bool>();
  }
  void read(const char* name, const Json& from, std::int64_t& to) {
    const bool fits =
        from.is_number_integer() && (!from.is_number_unsigned() || from.get<std::uint64_t>() <= INT64_MAX);
    if (!fits) return reject(name, fmt::format("{}, expected a whole number", shown(from)));
    to = from.get<std::int64_t>();
  }
  void reject_absent(const char* name) { reject(name, "is absent, expected a whole number of 1 or more"); }
  void reject(const std::string& name, const std::string& why) { faults_.push_back(fmt::format("{}: {}", name, why)); }

  const Json& object_;
  std::vector<std::string> faults_;
};

[[noreturn]] void refuse(std::string_view file, const std::vector<std::string>& faults) {
  throw Error(Code::InvalidArgument, fmt::format("model '{}': {}", file, fmt::join(faults, "; ")));
}

}  // namespace

ModelShape model_from_json(std::string_view text, std::string_view file) {
  Json object;
  try {
    std::vector<std::string> members;  // names in the outermost object, to find duplicates
    object = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& key) {
      if (event == Json::parse_event_t::key && depth == 1) members.push_back(key.get<std::string>());
      return true;
    });
    std::ranges::sort(members);
    const auto doubled = std::ranges::adjacent_find(members);
    if (doubled != members.end()) refuse(file, {fmt::format("{}: is there twice, expected once", *doubled)});
  } catch (const Json::parse_error& e) {
    throw Error(Code::InvalidArgument, fmt::format("model '{}': not JSON: {}", file, e.what()));
  }
  if (!object.is_object()) refuse(file, {fmt::format("{}, expected an object", shown(object))});
  ModelShape model;
  Reading reading(object);
  for (const Field& field : fields()) reading.read(field, model);
  reading.require_if(model.mamba == 0 || model.attention_every > 0, "heads");
  reading.require_if(model.mamba == 0 && (model.experts == 0 || model.dense_layers > 0), "feed_forward");
  reading.reject_unknown();
  std::vector<std::string> faults = reading.faults();
  if (faults.empty()) faults = faults_of(model);
  if (!faults.empty()) refuse(file, faults);
  if (model.name.empty()) model.name = std::filesystem::path(file).stem().string();
  return model;
}

ModelShape find_model(const std::string& name_or_file) {
  const std::vector<std::string> names = model_names();
  if (std::ranges::find(names, name_or_file) != names.end()) return named_model(name_or_file);
  std::error_code none;
  if (!std::filesystem::exists(name_or_file, none)) {
    if (!name_or_file.ends_with(".json")) return named_model(name_or_file);  // the error lists the names
    throw Error(Code::InvalidArgument, fmt::format("model '{}': there is no such file", name_or_file));
  }
  if (std::filesystem::is_directory(name_or_file, none))
    throw Error(Code::InvalidArgument, fmt::format("model '{}': is a directory, expected a file", name_or_file));
  errno = 0;
  std::ifstream in(name_or_file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad())
    throw Error(Code::System, fmt::format("model '{}' cannot be read: {}", name_or_file, std::strerror(errno)));
  return model_from_json(text, name_or_file);
}

}  // namespace sinew::parallel
