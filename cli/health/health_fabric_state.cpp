#include "cli/health/health_fabric_state.h"

#include "health/model/finding_words.h"
#include "launcher/wire/versioned_json.h"

namespace muster {

namespace {

constexpr int version = 1;

}  // namespace

std::string encode_fabric_state(const FabricState& state) {
  return versioned_json(state, version);
}

Result<FabricState> decode_fabric_state(std::string_view text) {
  return read_versioned_json<FabricState>(text, version);
}

}  // namespace muster
