"builtin.module"() ({
  "func.func"() <{function_type = (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32>, sym_name = "f", sym_visibility = "private"}> ({
  ^bb0(%arg3: tuple<tensor<2xf32>, tensor<3xf32>>):
    %2 = "stablehlo.get_tuple_element"(%arg3) <{index = 0 : i32}> : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32>
    "func.return"(%2) : (tensor<2xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{jax.buffer_donor = true}, {}, {tf.aliasing_output = 0 : i32}], function_type = (tensor<2xf32>, tensor<3xf32>, tensor<2xf32>) -> tensor<2xf32>, sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2xf32>, %arg1: tensor<3xf32>, %arg2: tensor<2xf32>):
    %0 = "stablehlo.tuple"(%arg0, %arg1) : (tensor<2xf32>, tensor<3xf32>) -> tuple<tensor<2xf32>, tensor<3xf32>>
    %1 = "func.call"(%0) <{callee = @f}> : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32>
    "func.return"(%1) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
