// What a program keeps for itself from one run to the next: a struct with `fields` as one JSON
// object that says of which version it is. Unknown fields are passed over, absent ones keep their
// defaults; reading never throws. Heavy, as json_fields.h is: for codecs' sources only.
#pragma once

#include <string>
#include <string_view>

#include "launcher/wire/json_fields.h"
#include "scheduler/model/result.h"

namespace muster {

template <HasFields T>
std::string versioned_json(const T& value, int version) {
  Json out;
  write_json(out, value);
  out["version"] = version;
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

template <HasFields T>
Result<T> read_versioned_json(std::string_view text, int version) {
  try {
    const Json in = Json::parse(text);
    const auto& object = in.get_ref<const Json::object_t&>();
    const auto found = object.find("version");
    if (found == object.end() || whole<int>(found->second) != version) {
      return Error{"it is of another version of muster"};
    }
    T value;
    read_json(in, value);
    return value;
  } catch (const std::exception& wrong) {
    return Error{std::string("it is broken: ") + wrong.what()};
  }
}

}  // namespace muster
