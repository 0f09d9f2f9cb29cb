#include "templates/pipeline/pipeline.h"

#include "scheduler/text/spelling.h"
#include "templates/job/command_job.h"

namespace muster {
namespace {

void take_texts(MapReader& map, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const Value value = map.take(key);
    if (value.present()) value.text();
  }
}

// Keys of every resource.
MapReader resource(const Value& root) {
  MapReader map(root);
  take_texts(map, {"$schema", "type", "description", "display_name"});
  map.take("tags").text_map();
  map.take("properties").text_map();
  return map;
}

void read_ssh_settings(const Value& value) {
  MapReader map(value);
  take_texts(map, {"admin_username", "ssh_key_value", "ssh_private_key_file", "ssh_port"});
  const Value password = map.take("admin_password");
  if (password.given()) password.unresolved("passwords are not taken; use a key");
  map.finish();
}

void read_amlcompute(MapReader& map) {
  check_name(map.require("name"));
  take_texts(map, {"size"});
  map.take("tier").word({"dedicated", "low_priority"});
  const auto least = map.take("min_instances").integer(0, 65536);
  const Value most = map.take("max_instances");
  const auto limit = most.integer(0, 65536);
  if (least && limit && *least > *limit) most.error("expected at least min_instances");
  map.take("idle_time_before_scale_down").duration();
  read_ssh_settings(map.take("ssh_settings"));
  map.ignore({"location", "network_settings", "identity", "ssh_public_access_enabled",
              "enable_node_public_ip", "resource_id", "provisioning_state", "provisioning_errors",
              "created_on"},
             "means something in the cloud only; ignored");
}

}  // namespace

void read_compute_file(const Value& root) {
  root.findings().hide_source_lines();
  MapReader map = resource(root);
  const YamlNode* type = root.node().find("type");
  if (type && type->kind == YamlNode::Kind::scalar && folded(type->text) == "virtualmachine") {
    check_name(map.require("name"));
    const Value id = map.require("resource_id");
    if (const auto text = id.text()) id.is_to_be_replaced(*text);
    map.ignore({"location"}, "means something in the cloud only; ignored");
    read_ssh_settings(map.take("ssh_settings"));
  } else {
    read_amlcompute(map);
  }
  map.finish();
}

void read_environment_file(const Value& root, Reading& reading, EnvironmentSpec& spec) {
  MapReader map = resource(root);
  check_name(map.require("name"));
  take_texts(map, {"version", "inference_config"});
  // The keys an inline environment has too are checked by its reader, from a map of those alone.
  YamlNode inner;
  inner.kind = YamlNode::Kind::map;
  inner.place = root.node().place;
  for (const char* key : {"image", "build", "conda_file", "os_type"}) {
    map.take(key);
    for (const Entry& entry : root.node().entries) {
      if (entry.key == key) inner.entries.push_back(entry);
    }
  }
  ignore_asset_keys(map);
  read_environment(Value(reading.keep(std::move(inner)), "", reading.findings), reading, spec);
  map.finish();
}

}  // namespace muster
