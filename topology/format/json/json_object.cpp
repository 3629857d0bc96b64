#include <cmath>

#include <nlohmann/json.hpp>

#include <sinew/topology/format/json/json_object.hpp>
#include <sinew/topology/format/json/json_text.hpp>

namespace sinew {

JsonField::JsonField(std::string_view field, double shown, int digits) : name(field) {
  const double scale = std::pow(10.0, digits);
  value = std::round(shown * scale) / scale;
}

std::string json_object(const std::vector<JsonField>& fields) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const JsonField& field : fields) std::visit([&](const auto& value) { out[field.name] = value; }, field.value);
  return json_text(out);
}

}  // namespace sinew
