#include "launcher/wire/record_codec.h"

namespace muster {

namespace {

std::string text_of(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <class Visit>
auto visit_record(const Record& record, Visit visit) {
  return std::visit([&](const auto& side) { return std::visit(visit, side); }, record.what);
}

Json json_of(const Record& record) {
  Json json;
  visit_record(record, [&json](const auto& value) { write_json(json, value); });
  return json;
}

std::optional<Record> record_from(std::string_view kind, const Json& json, Time at) {
  Observation observation;
  if (read_kind(json, kind, observation)) return Record{at, std::move(observation)};
  Decision decision;
  if (read_kind(json, kind, decision)) return Record{at, std::move(decision)};
  return std::nullopt;
}

void rename(Json& object, const char* from, const char* to, Json (*change)(const Json&)) {
  const auto found = object.find(from);
  if (found == object.end()) return;
  object[to] = change(*found);
  object.erase(from);
}

Json one_number(const Json& number) { return Json::array({number}); }

Json one_range(const Json& number) {
  return Json::array({Json{{"low", number}, {"high", number}}});
}

// Up to version 14 the built-in rules after which saved values may be wrong were known by name.
void doubt_by_name(Json& record, const Json::json_pointer& at) {
  if (!record.contains(at) || !record.at(at).is_object()) return;
  Json& rule = record.at(at);
  const std::string id = rule.value("id", "");
  const bool is_one =
      rule.value("origin", "default") == "default" && (id == "gpu-ecc" || id == "gpu-xid-memory");
  if (is_one && !rule.contains("doubts_state")) rule["doubts_state"] = true;
}

// Up to version 4 muster.hang was checked, kept as text and not acted on. Whoever set a time, or
// none, did not ask for one that is learned.
void unwatched_hangs(Json& muster) {
  const auto other = muster.find("other");
  if (other == muster.end() || !other->is_object()) return;
  const auto timeout = other->find("hang.timeout");
  if (timeout != other->end() && *timeout != "auto") muster["hang"]["off"] = true;
  for (const char* key : {"hang.timeout", "hang.first_step", "hang.watch"}) other->erase(key);
}

// Records as stores of older versions hold them, made into what this build reads. What is only
// absent from them needs nothing: absent fields keep their defaults. Throws as reading does, when
// the record is none.
void bring_up_to_date(std::string_view kind, Json& record) {
  if (kind == RankExited::kind) doubt_by_name(record, Json::json_pointer("/rules/rule"));
  if (kind == AttemptEnded::kind) doubt_by_name(record, Json::json_pointer("/cause/rules/rule"));
  if (kind != JobSubmitted::kind && kind != ResumeRequested::kind) return;
  const Json::json_pointer muster("/spec/muster"), rules("/spec/muster/rules");
  if (record.contains(rules)) {
    for (Json& rule : record.at(rules)) {  // up to version 2 a condition was one number
      rename(rule, "exit_code", "exit_codes", one_range);
      rename(rule, "signal", "signals", one_number);
      rename(rule, "xid", "xids", one_range);
    }
  }
  if (record.contains(muster) && record.at(muster).is_object()) unwatched_hangs(record.at(muster));
}

}  // namespace

RecordText encode_record(const Record& record) {
  const char* kind =
      visit_record(record, [](const auto& value) { return std::decay_t<decltype(value)>::kind; });
  return {kind, text_of(json_of(record))};
}

// State made from half a record would lead to other decisions than those in the journal.
Result<Record> decode_record(std::string_view kind, std::string_view payload, Time at) {
  const std::string newer =
      ": it was written by a newer muster; use that version, or set "
      "MUSTER_HOME elsewhere";
  try {
    Json json = Json::parse(payload);
    bring_up_to_date(kind, json);
    const auto record = record_from(kind, json, at);
    if (!record) {
      return Error{"the journal holds a record of the unknown kind '" + std::string(kind) + "'" +
                   newer};
    }
    if (const auto field = unknown_field(json, json_of(*record))) {
      return Error{"the journal holds a record of kind '" + std::string(kind) +
                   "' with the unknown field '" + *field + "'" + newer};
    }
    return *record;
  } catch (const std::exception& failure) {
    return Error{"a journal record of kind '" + std::string(kind) +
                 "' cannot be read: " + failure.what()};
  }
}

std::string encode_spec(const JobSpec& spec) {
  Json json;
  write_json(json, spec);
  return text_of(json, 2) + "\n";
}

std::string encode_tags(const std::map<std::string, std::string>& tags) {
  Json json;
  write_json(json, tags);
  return text_of(json);
}

}  // namespace muster
