#include "health/active/json_tree.h"

#include <random>

#include "tests/catch.h"

using namespace muster;

TEST_CASE("JSON is read as a tree") {
  const auto root = read_json(
      R"( {"a": [1, -2.5e1, true, false, null], "b": {"c": "x\"\\\/\n\u0041\u00e9"}, "d": []} )");
  REQUIRE(root);
  const JsonNode* list = root->at("a");
  REQUIRE(list);
  REQUIRE(list->list());
  REQUIRE(list->list()->size() == 5);
  CHECK(*list->list()->at(0).number() == 1);
  CHECK(*list->list()->at(1).number() == -25);
  CHECK(std::get<bool>(list->list()->at(2).value));
  CHECK_FALSE(std::get<bool>(list->list()->at(3).value));
  CHECK(list->list()->at(4).is_null());
  CHECK(*root->at("b")->at("c")->text() == "x\"\\/\nA?");
  CHECK(root->at("d")->list()->empty());
  CHECK(root->at("e") == nullptr);
  CHECK(list->at("a") == nullptr);
  CHECK(list->text() == nullptr);
}

TEST_CASE("what is no JSON is an error that says where") {
  for (const std::string bad : {"",
                                " ",
                                "{",
                                "[",
                                "{]",
                                "[1,]",
                                "[1 2]",
                                "{\"a\"}",
                                "{\"a\":}",
                                "{a:1}",
                                "{\"a\":1,}",
                                "tru",
                                "nul",
                                "01x",
                                "1 2",
                                "-",
                                "-inf",
                                "inf",
                                "nan",
                                "1e999",
                                "\"",
                                "\"\\\"",
                                "\"\\q\"",
                                "\"\\u12\"",
                                "\"\\u12g4\"",
                                "\"\\u+123\"",
                                "\"a\nb\"",
                                "{\"a\":1,\"a\":2}",
                                "[]]",
                                "{}{}"}) {
    INFO(bad);
    CHECK_FALSE(read_json(bad));
  }
  CHECK(read_json("[1, x]").error().message == "it is no JSON from byte 4 on");
}

TEST_CASE("JSON that is too deep, too large or of too many values is refused") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(read_json(nested(json_depth_max)));
  CHECK_FALSE(read_json(nested(1'000'000)));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  CHECK_FALSE(read_json(deep));
  CHECK_FALSE(read_json("\"" + std::string(json_text_max, 'x') + "\""));
  std::string many = "[0";
  for (std::size_t i = 0; i < json_values_max; ++i) many += ",0";
  CHECK_FALSE(read_json(many + "]"));
  std::string members = "{\"k\":0";
  for (int i = 0; i < 5'000; ++i) members += ",\"" + std::to_string(i) + "\":0";
  CHECK_FALSE(read_json(members + "}"));
}

TEST_CASE("no bytes make the reader of JSON fail") {
  std::mt19937 random(20260501);
  const std::string base = R"({"a": [1, {"b": "c\u0041"}, -2e3, null, true], "d": {}})";
  const std::string letters = "{}[]\",:\\u0e-+.tfn \x01\xff";
  int good = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = base;
    for (int change = static_cast<int>(random() % 4); change >= 0; --change) {
      const std::size_t at = random() % text.size();
      text.replace(at, random() % 3, 1, letters[random() % letters.size()]);
    }
    if (read_json(text)) ++good;
  }
  CHECK(good < 20'000);
}
