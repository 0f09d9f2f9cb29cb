// `inputs` and `outputs`: literals, and data with its path, type and mode.
#include <algorithm>

#include "scheduler/model/names.h"
#include "scheduler/text/spelling.h"
#include "templates/job/command_job.h"
#include "templates/job/expression.h"
#include "templates/yaml/path_form.h"

namespace muster {
namespace {

bool is_data_name(std::string_view name) {
  return name.size() <= 255 && is_word_of(name, "_.-") && name.front() != '.' &&
         name.front() != '-';
}

void check_data_name(const Value& value) {
  if (!is_data_name(value.key())) {
    value.error(quoted_text(value.key()) +
                " is not a name; expected letters, digits, '_', '.' and '-'");
  }
  const auto reserved = words_in("path ld_library_path user logname home pwd shell");
  if (std::ranges::count(reserved, folded(value.key())) > 0) {
    value.warning("the name is reserved in Azure components");
  }
}

bool is_literal_type(const Value& type) {
  const auto words = words_in("string number integer boolean");
  return type.is_scalar() && std::ranges::count(words, folded(type.node().text)) > 0;
}

std::string literal_text(const YamlNode& node, bool is_boolean) {
  const auto bare = node.quoted ? std::nullopt : boolean_in_azure(node.text);
  const auto value = is_boolean ? boolean_word(node.text) : bare;
  return !value ? node.text : *value ? "True" : "False";
}

void check_range(const Value& value, const Value& low, const Value& high) {
  const auto number = real_number(value.node().text);
  const auto least = low.number();
  const auto most = high.number();
  if (number && least && *number < *least) {
    value.error("expected " + low.node().text + " or more, got " + value.node().text);
  }
  if (number && most && *number > *most) {
    value.error("expected at most " + high.node().text + ", got " + value.node().text);
  }
}

void check_literal_type(const Value& value, const std::string& type) {
  if (!value.is_scalar()) {
    value.text();
  } else if (type == "integer") {
    value.integer(-2147483647, 2147483647);
  } else if (type == "number") {
    value.number();
  } else if (type == "boolean") {
    value.boolean();
  }
}

// A literal with its type spelled out, as components declare them.
InputSpec read_typed_literal(const Value& value, MapReader& map, const Value& type,
                             DataContext context) {
  InputSpec input;
  const std::string word = folded(type.node().text);
  if (context == DataContext::command_job) {
    type.warning("Azure ML rejects a literal type in a command job; write the value alone");
  }
  const Value preset = map.take("default");
  const Value least = map.take("min");
  const Value most = map.take("max");
  std::vector<std::string> allowed;
  for (const Value& each : map.take("enum").list()) {
    if (const auto text = each.text()) allowed.push_back(*text);
  }
  map.take("optional").boolean();
  map.take("description").text();
  check_literal_type(preset, word);
  if (preset.is_scalar()) {
    input.is_literal = true;
    input.literal = literal_text(preset.node(), word == "boolean");
    check_range(preset, least, most);
    if (!allowed.empty()) preset.word(allowed);
  } else if (context == DataContext::command_job && value.is_map() && !preset.given()) {
    value.error("a literal needs a value; write the value alone");
  }
  map.finish();
  return input;
}

void check_local(const Value& path, const Value& type, const std::string& text, Reading& reading,
                 InputSpec& input) {
  if (!reading.options.files.kind_of) return;
  const OnDisk found = reading.options.files.kind_of(input.path);
  if (found == OnDisk::missing) {
    if (text.starts_with('/')) {
      path.warning(quoted_text(input.path) + " is not on this machine; every node must have it");
    } else {
      path.error("there is no file or directory " + quoted_text(input.path));
    }
  } else if (found == OnDisk::file && !type.present()) {
    input.type = DataType::uri_file;
    path.note("a file; read as type uri_file");
  } else if (found == OnDisk::file && input.type == DataType::uri_folder) {
    type.error(quoted_text(input.path) + " is a file; expected type uri_file");
  } else if (found == OnDisk::directory && input.type == DataType::uri_file) {
    type.error(quoted_text(input.path) + " is a directory; expected type uri_folder");
  }
}

// Stores kind and path; relative local paths become absolute. False after a finding.
bool read_path(const Value& path, const std::string& text, PathKind& kind, std::string& out) {
  if (path.is_to_be_replaced(text, "a path")) return false;
  const auto form = path_form(text);
  if (!form || text.empty()) {
    path.error("expected a path, a URL or azureml:<name>:<version>, got " + quoted_text(text));
    return false;
  }
  kind = form->kind;
  out = kind == PathKind::local ? Reading::local_path(path, form->path) : form->path;
  return true;
}

// Old spellings of where the data is: `file`, `folder`, `data: {local_path | path}`.
Value old_path(MapReader& map, InputSpec& input) {
  const Value file = map.take("file");
  const Value folder = map.take("folder");
  const Value data = map.take("data");
  for (const Value& each : {file, folder, data}) {
    if (each.given()) each.note("deprecated; write 'type' and 'path'");
  }
  if (file.given()) input.type = DataType::uri_file;
  if (data.given()) {
    MapReader inner(data);
    const Value path = inner.take("path");
    const Value local = inner.take("local_path");
    inner.finish();
    return path.given() ? path : local;
  }
  return file.given() ? file : folder;
}

void read_input_mode(const Value& mode, InputSpec& input) {
  if (mode.is_scalar() && folded(mode.node().text) == "mount") return;  // old, of `ro_mount`
  const auto value = mode.choice<InputMode>(EnumWords<InputMode>::words);
  if (!value) return;
  input.mode = *value;
  if (*value != InputMode::eval_mount && *value != InputMode::eval_download) return;
  if (input.type != DataType::mltable) {
    mode.error("only type mltable has the mode " + quoted_text(mode.node().text));
  } else {
    mode.unresolved("the mode " + quoted_text(mode.node().text) + " is not supported");
  }
}

InputSpec read_data(const Value& value, MapReader& map, const Value& type, DataContext context,
                    Reading& reading) {
  InputSpec input;
  store(input.type, type.choice<DataType>(EnumWords<DataType>::words));
  const Value given_path = map.take("path");
  const Value older = old_path(map, input);
  const Value path = given_path.given() ? given_path : older;
  read_input_mode(map.take("mode"), input);
  map.take("datastore").text();
  map.take("description").text();
  map.ignore({"path_on_compute"}, "means something on Azure's machines only; ignored");
  if (context == DataContext::component) {
    map.take("optional").boolean();
    map.take("default");
  }
  map.finish();
  if (const auto text = path.text()) {
    if (!find_expressions(*text).found.empty()) {
      path.error("expressions are not expanded in the path of an input");
    } else if (read_path(path, *text, input.path_kind, input.path) &&
               input.path_kind == PathKind::local) {
      check_local(path, older.given() ? older : type, *text, reading, input);
    }
  } else if (!path.present() && context != DataContext::component) {
    value.error("'path' is required");
  }
  return input;
}

InputSpec read_literal(const Value& value) {
  InputSpec input;
  const auto text = value.text();
  if (!text) return input;
  input.is_literal = true;
  input.literal = literal_text(value.node(), false);
  note_other_reading(value);
  value.is_to_be_replaced(input.literal, "a value");
  return input;
}

InputSpec read_input(const Value& value, DataContext context, Reading& reading) {
  InputSpec input;
  note_null_word(value);
  if (value.is_null()) return input;
  if (value.is_scalar()) return read_literal(value);
  MapReader map(value);
  if (const Value literal = map.take("value"); literal.given()) {
    map.finish();
    return read_literal(literal);
  }
  const Value type = map.take("type");
  if (is_literal_type(type)) return read_typed_literal(value, map, type, context);
  if (!value.is_map()) return input;
  return read_data(value, map, type, context, reading);
}

// In a pipeline `${{name}}` is the step's; the job's own name may only be known after submission.
std::string expanded_output_path(const Value& path, const std::string& text,
                                 const std::string& output_name, const JobSpec& spec) {
  return expand(text, [&](const std::string& name) -> std::optional<std::string> {
    if (name == "output_name") return output_name;
    if (name == "name") return spec.name.empty() ? "\x01name\x02" : spec.name;
    if (name == "default_datastore") return std::nullopt;
    path.error("unknown expression " + quoted_text("${{" + name + "}}") + " in an output path",
               did_you_mean(name, {"name", "output_name", "default_datastore"}));
    return std::nullopt;
  });
}

OutputSpec read_output(const Value& value, const JobSpec& spec) {
  OutputSpec output;
  MapReader map(value);
  const Value type = map.take("type");
  if (is_literal_type(type)) {
    type.error("an output is a file or a folder, not a literal");
  } else {
    store(output.type, type.choice<DataType>(EnumWords<DataType>::words));
  }
  store(output.mode, map.take("mode").choice<OutputMode>({{"rw_mount", OutputMode::rw_mount},
                                                          {"upload", OutputMode::upload},
                                                          {"direct", OutputMode::direct},
                                                          {"mount", OutputMode::rw_mount}}));
  const Value path = map.take("path");
  if (const auto text = path.text()) {
    const std::string expanded = expanded_output_path(path, *text, value.key(), spec);
    read_path(path, expanded, output.path_kind, output.path);
  }
  output.asset_name = map.take("name").text().value_or("");
  output.asset_version = map.take("version").text().value_or("");
  map.take("description").text();
  map.take("$schema");
  map.finish();
  return output;
}

}  // namespace

void read_inputs(const Value& value, DataContext context, Reading& reading, JobSpec& spec) {
  for (const Value& each : MapReader(value).entries()) {
    check_data_name(each);
    spec.inputs[each.key()] = read_input(each, context, reading);
  }
}

void read_outputs(const Value& value, JobSpec& spec) {
  for (const Value& each : MapReader(value).entries()) {
    check_data_name(each);
    if (folded(each.key()) == "default") {
      each.note("Azure ML's own place for what a job leaves; ignored");
      continue;
    }
    spec.outputs[each.key()] = read_output(each, spec);
  }
}

}  // namespace muster
