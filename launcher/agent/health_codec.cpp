#include "launcher/agent/health_codec.h"

#include "health/finding_words.h"
#include "launcher/wire/json_fields.h"

namespace muster {

std::string encode_health(const SavedHealth& saved) {
  Json json;
  write_json(json, saved);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<SavedHealth> decode_health(std::string_view text) {
  SavedHealth saved;
  const int known = saved.version;
  try {
    read_json(Json::parse(text), saved);
  } catch (const std::exception& error) {
    return Error{error.what()};
  }
  if (saved.version > known) return Error{"it was written by a newer version of muster"};
  return saved;
}

}  // namespace muster
