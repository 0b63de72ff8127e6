// SPDX-License-Identifier: Apache-2.0
#include "engine/model/family.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace lowmem::testing {
namespace {

std::string_view View(absl::string_view text) {
  return {text.data(), text.size()};
}

TEST(FamilyTest, FoundByEveryNameItHas) {
  for (const FamilySpec& family : Families()) {
    EXPECT_EQ(FamilyByArchitecture(family.architecture), &family)
        << View(family.name);
    EXPECT_EQ(FamilyByModelType(family.model_type), &family)
        << View(family.name);
    if (family.gguf_architecture.empty()) continue;
    EXPECT_EQ(FamilyByGgufArchitecture(family.gguf_architecture), &family);
  }
  EXPECT_NE(FamilyByGgufArchitecture("llama"), nullptr);
  EXPECT_NE(FamilyByGgufArchitecture("qwen2"), nullptr);
}

TEST(FamilyTest, UnknownAndEmptyNamesAreNotFound) {
  for (const char* name : {"", "Llama", "llama ", "mamba", "llama4"}) {
    EXPECT_EQ(FamilyByArchitecture(name), nullptr) << name;
    EXPECT_EQ(FamilyByModelType(name), nullptr) << name;
    EXPECT_EQ(FamilyByGgufArchitecture(name), nullptr) << name;
  }
}

TEST(FamilyTest, ATableNamesEachRoleAndEachTensorOnce) {
  for (const FamilySpec& family : Families()) {
    for (const auto patterns :
         {family.hugging_face_tensors, family.gguf_tensors}) {
      std::set<TensorRole> roles;
      std::set<std::string> names;
      for (const TensorPattern& entry : patterns) {
        EXPECT_TRUE(roles.insert(entry.role).second) << View(entry.pattern);
        EXPECT_TRUE(names.insert(std::string(entry.pattern)).second);
      }
    }
  }
}

// LayerOfName relies on it.
TEST(FamilyTest, LayerPatternsOfATableShareTheirPrefix) {
  for (const FamilySpec& family : Families()) {
    for (const auto patterns :
         {family.hugging_face_tensors, family.gguf_tensors}) {
      std::set<std::string> prefixes;
      for (const TensorPattern& entry : patterns) {
        const size_t mark = entry.pattern.find('#');
        if (mark != absl::string_view::npos) {
          prefixes.insert(std::string(entry.pattern.substr(0, mark)));
        }
      }
      EXPECT_EQ(prefixes.size(), 1u);
    }
  }
}

}  // namespace
}  // namespace lowmem::testing
