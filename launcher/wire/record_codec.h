// Journal records and job specs as JSON text. Text that is not UTF-8 is replaced, never refused;
// reading never throws. A record of an unknown kind or with an unknown field is an Error: absent
// fields read as their defaults, but nothing that was written is dropped. A field that goes out of
// use is therefore removed from older journals by a migration (store/schema.cpp).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "launcher/wire/json_fields.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/model/record.h"
#include "scheduler/model/result.h"

namespace muster {

struct RecordText {
  std::string kind;
  std::string payload;  // a JSON object
};

RecordText encode_record(const Record& record);
Result<Record> decode_record(std::string_view kind, std::string_view payload, Time at);
std::string encode_spec(const JobSpec& spec);  // indented JSON: jobs/<job>/spec.json

std::string encode_tags(const std::map<std::string, std::string>& tags);  // a JSON object

}  // namespace muster
