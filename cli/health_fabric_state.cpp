#include "cli/health_fabric_state.h"

#include "health/finding_words.h"
#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

constexpr int version = 1;

}  // namespace

std::string encode_fabric_state(const FabricState& state) {
  Json out;
  write_json(out, state);
  out["version"] = version;
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<FabricState> decode_fabric_state(std::string_view text) {
  try {
    const Json in = Json::parse(text);
    const auto& object = in.get_ref<const Json::object_t&>();
    const auto found = object.find("version");
    if (found == object.end() || whole<int>(found->second) != version) {
      return Error{"it is of another version of muster"};
    }
    FabricState state;
    read_json(in, state);
    return state;
  } catch (const std::exception& wrong) {
    return Error{std::string("it is broken: ") + wrong.what()};
  }
}

}  // namespace muster
