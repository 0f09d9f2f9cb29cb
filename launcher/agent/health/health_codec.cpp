#include "launcher/agent/health/health_codec.h"

#include "health/model/finding_words.h"
#include "launcher/wire/versioned_json.h"

namespace muster {

namespace {

constexpr int version = 1;

}  // namespace

std::string encode_health(const SavedHealth& saved) {
  return versioned_json(saved, version);
}

Result<SavedHealth> decode_health(std::string_view text) {
  return read_versioned_json<SavedHealth>(text, version);
}

}  // namespace muster
