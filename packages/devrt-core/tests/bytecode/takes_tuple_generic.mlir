"builtin.module"() ({
  "func.func"() <{function_type = (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32>, sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tuple<tensor<2xf32>, tensor<3xf32>>):
    %0 = "stablehlo.get_tuple_element"(%arg0) <{index = 0 : i32}> : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32>
    "func.return"(%0) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
